import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from '../report.ts';
import { drain, publishAlone, subscribe, waits } from './rows.ts';
import { type Arrival, countDoubles, now, type Process, type Published, type Setup, type Target } from './setup.ts';

/** A worker is killed in the middle of draining, and another started. */
export async function killInMidDrain(setup: Setup, worker: Process, next: () => Promise<Process>, waiting: number) {
  await worker.call('start');
  while ((await setup.receiver.call<number>('count')) < waiting / 2) await sleep(5);
  const gone = once(worker.child, 'exit');
  worker.child.kill('SIGKILL');
  await gone;
  const restarted = now();
  const successor = await next();
  await successor.call('start');
  const until = now() + 30_000;
  const arrived: Arrival[] = [];
  const distinct = () => arrived.length - countDoubles(arrived);
  while (distinct() < waiting && now() < until) {
    await sleep(50);
    arrived.push(...(await setup.receiver.call<Arrival[]>('take')));
  }
  // one that came twice may come late
  await sleep(500);
  arrived.push(...(await setup.receiver.call<Arrival[]>('take')));
  return {
    successor,
    lost: waiting - distinct(),
    twice: countDoubles(arrived),
    seconds: (Math.max(...arrived.map(({ at }) => at)) - restarted) / 1_000,
  };
}

/** Deliveries a second of several worker processes that share one backlog. @throws when one came twice */
export async function shareBacklog(setup: Setup, target: Target, userId: string, count: number, waiting: number) {
  await publishAlone(setup, target, userId, waiting / 10);
  const workers = await Promise.all(Array.from({ length: count }, () => setup.sender()));
  const started = now();
  await Promise.all(workers.map((worker) => worker.call('start')));
  const arrivals = await setup.arrivals(waiting);
  // one that came twice may come late
  await sleep(300);
  const twice = await setup.receiver.call<number>('count');
  if (twice > 0) throw new Error(`${twice} deliveries came twice from ${count} workers`);
  for (const worker of workers) await setup.closed(worker);
  return (waiting * 1_000) / (Math.max(...arrivals.map(({ at }) => at)) - started);
}

/** From a publisher without workers to the receiver, by the worker of another process. Milliseconds. */
export async function wakeUp(
  setup: Setup,
  publisher: Process,
  target: Target,
  userId: string,
  { changeStreams, events }: { changeStreams: boolean; events: number },
) {
  await subscribe(setup, publisher, userId, 1);
  const worker = await setup.sender({ deliveries: { changeStreams } });
  await worker.call('start');
  // its stream is open, and both know the account, by then
  await setup.load.call('steadily', target, userId, 5, 5);
  await setup.arrivals(5);
  // at no multiple of the sweeps
  const published = await setup.load.call<Published[]>('steadily', target, userId, events, 10.7);
  const all = waits(published, await setup.arrivals(events), 'accepted');
  await setup.closed(worker);
  return { p50: percentile(all, 50), p99: percentile(all, 99) };
}

/** What a worker with nothing to do costs: percent of a core, and operations a second on the database. */
export async function idle(setup: Setup, worker: Process, seconds: number, settling: number) {
  // what starting it has caused is over, such as compiling what is now and then called
  await sleep(settling * 1_000);
  const before = await setup.usage(worker);
  await sleep(seconds * 1_000);
  const after = await setup.usage(worker);
  // the question for the operations is one itself
  const operations = after.operations - before.operations - 1;
  return { cpu: (after.cpu - before.cpu) / (seconds * 10), operations: operations / seconds };
}

/** Deliveries a second to receivers that take 100 ms to answer, and the peak of the worker's memory in MB. */
export async function slowReceivers(setup: Setup, publisher: Process, target: Target, userId: string, worker: Process) {
  const [webhooks, events] = [80, 40];
  await publisher.call('subscribe', userId, setup.urls(`slow-${userId}`, webhooks), setup.secret);
  await publishAlone(setup, target, userId, events);
  const seconds = await drain(setup, worker, webhooks * events);
  const { peak } = await worker.call<{ peak: number }>('usage');
  await setup.closed(worker);
  return { rate: (webhooks * events) / seconds, peak };
}
