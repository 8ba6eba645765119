import { startCommand } from './command.ts';
import { besideCrowd } from './crowding.ts';
import { nineOthers } from './hanging.ts';
import { addRate, rateNames } from './rates.ts';
import * as rows from './rows.ts';
import type { Groups, Run } from './run.ts';
import { type Process, type Target, uriOf } from './setup.ts';

/** In each of three rounds. */
const crowdPairs = 3;

const stockName = (row: string) => `stock Agenda: ${row}`;
const coldName = (row: string) => `stand-alone command, just started: ${row}`;
/** The first that a command makes, which include what Node compiles and the pools open meanwhile. */
const coldDeliveries = 10_000;
/** As many for stock Agenda, which is the slower the more jobs wait. */
const rateRows = [
  { row: 'one webhook', short: 'one webhook', events: 5_000, quickly: 3_000, webhooks: 1 },
  { row: 'each event to 10 webhooks', short: 'fan-out', events: 500, quickly: 100, webhooks: 10 },
] as const;

/** A sender that is published to over HTTP, and stock Agenda in its place. */
export function senderRows({ setup, notes, quick, some, newUser, opened }: Run): Groups {
  async function warmUp(sender: Process, target: Target, events: number): Promise<void> {
    const userId = newUser();
    await rows.subscribe(setup, sender, userId, 1);
    await rows.rate(setup, () => setup.usage(sender), target, userId, events, 1);
  }

  async function rates(sender: Process, named: (row: string) => string): Promise<void> {
    const target = await opened(sender);
    await sender.call('start');
    // until Node has compiled what is called often: a sender runs for weeks
    await warmUp(sender, target, quick ? 2_500 : 4_000);
    for (const { row, events, quickly, webhooks } of rateRows) {
      const userId = newUser();
      await rows.subscribe(setup, sender, userId, webhooks);
      const found = await rows.rate(
        setup,
        () => setup.usage(sender),
        target,
        userId,
        quick ? quickly : events,
        webhooks,
      );
      addRate(notes, named(row), found);
    }
    const { peak } = await sender.call<{ peak: number }>('usage');
    notes.add(named('peak memory of the sender'), 'MB', peak);
    await setup.closed(sender);
  }

  /** The stand-alone command as its users start it, a new one for each row, with nothing warmed up. */
  async function cold(): Promise<void> {
    for (const { row, webhooks } of rateRows) {
      const command = await startCommand();
      try {
        await setup.load.call('retarget');
        await command.subscribe(setup.urls(newUser(), webhooks), setup.secret);
        const events = some(coldDeliveries) / webhooks;
        const found = await rows.rate(setup, command.usage, command.target, command.userId, events, webhooks);
        addRate(notes, coldName(row), found);
      } finally {
        await command.end();
      }
    }
  }

  /** Two processes of the stand-alone command beside one, each warmed up. */
  async function processes(): Promise<void> {
    for (const { row, short, events, webhooks } of rateRows) {
      const named = (count: number) => `${row}, the command with ${count === 1 ? 'one process' : 'two processes'}`;
      for (const count of [1, 2]) {
        const uri = uriOf(setup.mongo, `bench_${newUser()}`);
        const command = await startCommand({ uri, secretKey: setup.secretKey, count });
        try {
          await setup.load.call('retarget');
          await command.subscribe(setup.urls(newUser(), webhooks), setup.secret);
          const measure = (some: number) =>
            rows.rate(setup, command.usage, command.target, command.userId, some, webhooks);
          await measure(Math.round(events * 0.8));
          addRate(notes, named(count), await measure(quick ? events / 5 : events));
          notes.add(`${named(count)}: peak memory of a process`, 'MB', await command.peakMemory());
        } finally {
          await command.end();
        }
      }
      const [one, two] = [rateNames(named(1)), rateNames(named(2))];
      notes.addRatio(`${short}: rate with two processes, times one`, two.rate, one.rate);
      notes.addRatio(`${short}: CPU with two processes, times one`, two.cpuWithMongod, one.cpuWithMongod);
    }
  }

  async function stock(): Promise<void> {
    await rates(await setup.stock(), stockName);
    for (const { row, short } of rateRows) {
      notes.addRatio(`${short}, times stock Agenda`, rateNames(row).rate, rateNames(stockName(row)).rate);
    }
  }

  async function warmSender(): Promise<{ sender: Process; target: Target }> {
    const sender = await setup.sender();
    const target = await opened(sender);
    await sender.call('start');
    await warmUp(sender, target, some(500));
    return { sender, target };
  }

  async function latency(): Promise<void> {
    const { sender, target } = await warmSender();
    const userId = newUser();
    await rows.subscribe(setup, sender, userId, 1);
    for (const [perSecond, events] of [
      [10, quick ? 50 : 200],
      [200, quick ? 600 : 2_000],
    ] as const) {
      const { accepted, sent } = await rows.delays(setup, target, userId, events, perSecond);
      notes.addAll(`accepted to first byte at ${perSecond}/s`, 'ms', accepted);
      notes.addAll(`published to first byte at ${perSecond}/s`, 'ms', sent);
    }
    await setup.closed(sender);
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

  return { rates: async () => rates(await setup.sender(), (row) => row), cold, processes, stock, latency, hang, crowd };
}
