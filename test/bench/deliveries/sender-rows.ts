import { setTimeout as sleep } from 'node:timers/promises';
import { besideCrowd } from './crowding.ts';
import { nineOthers } from './hanging.ts';
import { addRate, rateName, rateRows } from './rates.ts';
import * as rows from './rows.ts';
import type { Groups, Run } from './run.ts';
import type { Process, Published, Target } from './setup.ts';
import type { Sent } from './usage.ts';

/** In each of three rounds. */
const crowdPairs = 3;

/** A gateway that is mounted in Express and published to over HTTP, and stock Agenda in its place. */
export function senderRows({ setup, notes, quick, some, newUser, opened }: Run): Groups {
  async function warmUp(sender: Process, target: Target, events: number): Promise<string> {
    const userId = newUser();
    await rows.subscribe(setup, sender, userId, 1);
    await rows.rate(setup, () => setup.usage(sender), target, userId, events, 1);
    return userId;
  }

  /** Few deliveries: it is the slower the more jobs wait. Beside the command's, where `rates` is measured too. */
  async function stock(): Promise<void> {
    const sender = await setup.stock();
    const target = await opened(sender);
    await sender.call('start');
    // until Node has compiled what is called often: a sender runs for weeks
    await warmUp(sender, target, quick ? 1_000 : 4_000);
    for (const { row, webhooks } of rateRows) {
      const userId = newUser();
      await rows.subscribe(setup, sender, userId, webhooks);
      const events = (quick ? 1_000 : 5_000) / webhooks;
      const name = `stock Agenda: ${row}`;
      const usage = () => setup.usage(sender);
      addRate(notes.add, name, await rows.rate(setup, usage, target, userId, events, webhooks));
      notes.addRatio(`${row}, times stock Agenda`, rateName(row), rateName(name));
    }
    await setup.closed(sender);
  }

  /** Which commands an event sends that comes alone. The driver reports them, which costs CPU: no time is measured. */
  async function commands(): Promise<void> {
    const sender = await setup.sender({ countCommands: true });
    const target = await opened(sender);
    await sender.call('start');
    const userId = await warmUp(sender, target, 1_000);
    await sender.call('commands');
    const events = quick ? 50 : 100;
    await setup.load.call<Published[]>('steadily', target, userId, events, 10);
    await setup.arrivals(events);
    // what is still being recorded belongs to it
    await sleep(300);
    const sent = await sender.call<Sent[]>('commands');
    const seconds = events / 10 + 0.3;
    await sleep(seconds * 1_000);
    const idle = await sender.call<Sent[]>('commands');
    const idleOf = (one: Sent) =>
      idle.find(({ command, caller }) => command === one.command && caller === one.caller)?.count ?? 0;
    for (const one of sent) {
      const count = (one.count - idleOf(one)) / events;
      if (count >= 0.02) notes.add(`commands of an event at 10/s: ${one.command}, ${one.caller}`, '', count);
    }
    for (const { command, caller, count } of idle) {
      notes.add(`commands of an idle second: ${command}, ${caller}`, '', count / seconds);
    }
    await setup.closed(sender);
  }

  async function warmSender(): Promise<{ sender: Process; target: Target }> {
    const sender = await setup.sender();
    const target = await opened(sender);
    await sender.call('start');
    await warmUp(sender, target, some(500));
    return { sender, target };
  }

  /** At a rate that leaves the machine room: near its limit, delays tell of the queue alone. */
  async function hang(): Promise<void> {
    const { sender, target } = await warmSender();
    const turns = await nineOthers(setup, sender, target, newUser(), {
      turns: 3,
      events: quick ? 200 : 400,
      perSecond: 50,
    });
    for (const figure of ['p50', 'p99', 'CPU', 'operations'] as const) {
      const unit = figure === 'operations' ? 'an event' : figure === 'CPU' ? 'ms an event' : 'ms';
      for (const { answers, hangs } of turns) {
        notes.add(`nine receivers beside one that answers, ${figure}`, unit, answers[figure]);
        notes.add(`nine receivers beside one that hangs, ${figure}`, unit, hangs[figure]);
        notes.add(`hang row ${figure}, beside a hanging one / without`, 'times', hangs[figure] / answers[figure]);
      }
    }
    await setup.closed(sender);
  }

  /** Another account, which hangs with all it has. */
  async function crowd(): Promise<void> {
    const { sender, target } = await warmSender();
    const pairs = await besideCrowd(setup, sender, target, newUser(), {
      pairs: quick ? 2 : crowdPairs,
      events: quick ? 100 : 200,
      perSecond: 50,
    });
    for (const figure of ['p50', 'p99'] as const) {
      for (const { alone, crowded } of pairs) {
        notes.add(`an account alone, ${figure}`, 'ms', alone[figure]);
        notes.add(`an account beside one with 50 hanging webhooks and 4 recoveries, ${figure}`, 'ms', crowded[figure]);
        notes.add(`crowd row ${figure}, beside the other account / alone`, 'times', crowded[figure] / alone[figure]);
      }
    }
    await setup.closed(sender);
  }

  return { stock, commands, hang, crowd };
}
