import * as rows from './rows.ts';
import { type Groups, type Run, thousands } from './run.ts';
import * as workers from './workers.ts';

const accounting = {
  credits: { prices: { '*': { output: 1 } } },
  limits: { perKey: { requestsPerMinute: 1_000 }, shared: true },
  quotas: { perUser: { unit: 'tokens', daily: 1_000_000 } },
};

/** Workers in processes beside the one that is published to. */
export function workerRows({ setup, notes, quick, some, newUser, opened }: Run): Groups {
  const waiting = quick ? 5_000 : 10_000;

  async function kill(): Promise<void> {
    const publisher = await setup.sender();
    const target = await opened(publisher);
    const userId = newUser();
    await rows.subscribe(setup, publisher, userId, 10);
    await rows.publishAlone(setup, target, userId, waiting / 10);
    const { successor, lost, twice, seconds } = await workers.killInMidDrain(
      setup,
      await setup.sender(),
      setup.sender,
      waiting,
    );
    const row = `worker killed in mid-drain of ${thousands(waiting)}`;
    notes.add(`${row}: lost`, '', lost);
    notes.add(`${row}: twice`, '', twice);
    notes.add(`${row}: restart to last`, 's', seconds);
    await setup.closed(successor);
    await setup.closed(publisher);
  }

  async function several(): Promise<void> {
    const publisher = await setup.sender();
    const target = await opened(publisher);
    const userId = newUser();
    await rows.subscribe(setup, publisher, userId, 10);
    for (const count of [1, 2, 4]) {
      const rate = await workers.shareBacklog(setup, target, userId, count, some(10_000));
      notes.add(
        `a backlog drained by ${count} worker process${count === 1 ? '' : 'es'}, none twice`,
        'deliveries/s',
        rate,
      );
    }
    await setup.closed(publisher);
  }

  async function wake(): Promise<void> {
    const publisher = await setup.sender();
    const target = await opened(publisher);
    for (const changeStreams of [false, true]) {
      const found = await workers.wakeUp(setup, publisher, target, newUser(), {
        changeStreams,
        events: quick ? 40 : 150,
      });
      notes.addAll(`another process' worker, ${changeStreams ? 'with' : 'without'} change streams`, 'ms', found);
    }
    await setup.closed(publisher);
  }

  async function idle(): Promise<void> {
    for (const [name, options] of [
      ['idle gateway', { usage: false }],
      ['idle gateway with credits, limits and quotas', accounting],
    ] as const) {
      const worker = await setup.sender(options);
      await worker.call('start');
      const { cpu, operations } = await workers.idle(setup, worker, quick ? 4 : 20, quick ? 3 : 45);
      notes.add(`${name}: CPU`, '% of a core', cpu);
      notes.add(`${name}: operations on the database`, '/s', operations);
      await setup.closed(worker);
    }
  }

  /** What the default was chosen by. */
  async function concurrency(): Promise<void> {
    const publisher = await setup.sender();
    const target = await opened(publisher);
    for (const concurrency of quick ? [100, 200] : [50, 100, 200, 400]) {
      const worker = await setup.sender({ deliveries: { concurrency } });
      const { rate, peak } = await workers.slowReceivers(setup, publisher, target, newUser(), worker);
      notes.add(`receivers that take 100 ms, concurrency ${concurrency}`, 'deliveries/s', rate);
      notes.add(`receivers that take 100 ms, concurrency ${concurrency}: peak memory`, 'MB', peak);
    }
    await setup.closed(publisher);
  }

  return { kill, several, wake, idle, concurrency };
}
