import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import * as rows from './rows.ts';
import type { Groups, Run } from './run.ts';
import type { Process, Published, Target } from './setup.ts';
import type { Sent } from './usage.ts';

/** Events a second, and how many are published at each rate: seconds enough for timers and sweeps to have their share. */
const everyday = [
  { perSecond: 1, events: 20, quickly: 5 },
  { perSecond: 10, events: 150, quickly: 50 },
  { perSecond: 50, events: 500, quickly: 200 },
  { perSecond: 200, events: 2_000, quickly: 600 },
] as const;

/** What the kernel counts for a process: writes of any kind, to sockets above all, their bytes, and how often it was woken. */
async function kernelCounts({ child }: Process): Promise<{ writes: number; bytes: number; wakes: number }> {
  const io = await readFile(`/proc/${child.pid}/io`, 'utf8');
  const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
  const read = (text: string, name: string) => Number(new RegExp(`^${name}:\\s*(\\d+)`, 'm').exec(text)?.[1]);
  return {
    writes: read(io, 'syscw'),
    bytes: read(io, 'wchar'),
    wakes: read(status, 'voluntary_ctxt_switches'),
  };
}

/** What an event costs that comes alone, at the rates of an ordinary day, and what the sender costs while nothing comes. */
export function everydayRows({ setup, notes, quick, newUser, opened }: Run): Groups {
  async function warm(options: object): Promise<{ sender: Process; target: Target; userId: string }> {
    const sender = await setup.sender(options);
    const target = await opened(sender);
    await sender.call('start');
    const userId = newUser();
    await rows.subscribe(setup, sender, userId, 1);
    for (let i = 0; i < 3; i += 1) {
      await rows.rate(setup, () => setup.usage(sender), target, userId, quick ? 1_000 : 2_000, 1);
    }
    return { sender, target, userId };
  }

  async function publish(target: Target, userId: string, events: number, perSecond: number): Promise<void> {
    await setup.load.call<Published[]>('steadily', target, userId, events, perSecond);
    await setup.arrivals(events);
    // what is still being recorded belongs to it
    await sleep(300);
  }

  async function costs(): Promise<void> {
    const { sender, target, userId } = await warm({});
    for (const { perSecond, events, quickly } of everyday) {
      const count = quick ? quickly : events;
      const before = { ...(await setup.usage(sender)), ...(await kernelCounts(sender)) };
      await publish(target, userId, count, perSecond);
      const after = { ...(await setup.usage(sender)), ...(await kernelCounts(sender)) };
      const each = (figure: keyof typeof after) => (after[figure] - before[figure]) / count;
      const row = `everyday, ${perSecond} events a second, each`;
      notes.add(`${row}: CPU of the sender`, 'ms', each('cpu'));
      notes.add(`${row}: CPU of mongod`, 'ms', each('mongod'));
      notes.add(`${row}: requests to the database`, '', each('requests'));
      notes.add(`${row}: writes of the sender`, '', each('writes'));
      notes.add(`${row}: bytes written by the sender`, 'KB', each('bytes') / 1_000);
      notes.add(`${row}: times the sender's threads were woken`, '', each('wakes'));
    }
    const seconds = quick ? 5 : 20;
    const before = await setup.usage(sender);
    await sleep(seconds * 1_000);
    const after = await setup.usage(sender);
    notes.add('everyday, idle, each second: CPU of the sender', 'ms', (after.cpu - before.cpu) / seconds);
    notes.add('everyday, idle, each second: CPU of mongod', 'ms', (after.mongod - before.mongod) / seconds);
    notes.add('everyday, idle, each second: requests', '', (after.requests - before.requests) / seconds);
    await setup.closed(sender);
  }

  /** The same rate in a sender whose driver reports each command, which costs CPU: its time is not measured. */
  async function commands(): Promise<void> {
    const { sender, target, userId } = await warm({ countCommands: true });
    await sender.call('commands');
    const events = quick ? 50 : 100;
    await publish(target, userId, events, 10);
    const sent = await sender.call<Sent[]>('commands');
    const seconds = events / 10 + 0.3;
    await sleep(seconds * 1_000);
    const idle = await sender.call<Sent[]>('commands');
    const idleOf = (one: Sent) =>
      idle.find(({ command, caller }) => command === one.command && caller === one.caller)?.count ?? 0;
    for (const one of sent) {
      const count = (one.count - idleOf(one)) / events;
      if (count >= 0.02) notes.add(`everyday, commands of an event at 10/s: ${one.command}, ${one.caller}`, '', count);
    }
    for (const { command, caller, count } of idle) {
      notes.add(`everyday, commands of an idle second: ${command}, ${caller}`, '', count / seconds);
    }
    await setup.closed(sender);
  }

  return {
    async everyday() {
      await costs();
      await commands();
    },
  };
}
