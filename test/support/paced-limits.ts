import mongoose, { type Connection } from 'mongoose';
import { dropLater, freshUri } from './mongo.ts';

const writeConcern = { w: 'majority', j: true } as const;

/** A timer of so many milliseconds is a limit; a shorter one is a pause, or how often something is looked at. */
const shortestLimit = 1_000;
/** So far time passes beyond an answer of the database. Milliseconds. */
const stride = 50;

/**
 * Makes the limits of time in this process last longer where the database is slow, for a suite that does not ask about them: for a
 * timer of a second or more, time passes by 50 ms at most for each write that a majority confirms. On an idle machine that is as fast
 * as ever; on a busy one, a limit still ends what the database never answers, and not what the machine has not come to yet.
 * @param pauses by their length, timers that are no limits, and how long they take here. Milliseconds. @default none
 */
export function paceLimits(pauses: Readonly<Record<number, number>> = {}): void {
  const { setTimeout: start } = globalThis;
  const { timeout } = AbortSignal;
  let connection: Connection;
  let pacing: Promise<void>;
  let isOver = false;
  let passed = 0;
  let answeredAt = 0;
  // also where a test has the clock stand
  const now = performance.now.bind(performance);
  const time = () => passed + Math.min(now() - answeredAt, isOver ? Number.POSITIVE_INFINITY : stride);

  async function pace(): Promise<void> {
    const ticks = connection.collection<{ _id: string }>('ticks');
    while (!isOver) {
      const write = ticks.updateOne({ _id: 'tick' }, { $inc: { count: 1 } }, { upsert: true, writeConcern });
      await Promise.all([write.catch(() => {}), new Promise((resolve) => start(resolve, stride / 2))]);
      passed = time();
      answeredAt = now();
    }
  }

  function startPaced(call: (...args: unknown[]) => void, delay = 0, ...args: unknown[]): NodeJS.Timeout {
    const pause = pauses[delay] ?? delay;
    if (!(pause >= shortestLimit)) return start(call, pause, ...args);
    let due = time() + delay;
    // looks often, so that of two limits the shorter one ends first
    const timer: NodeJS.Timeout = start(() => (time() < due ? again() : call(...args)), shortestLimit / 4);
    const again = timer.refresh.bind(timer);
    timer.refresh = () => {
      due = time() + delay;
      return again();
    };
    return timer;
  }

  function abortPaced(delay: number): AbortSignal {
    const controller = new AbortController();
    startPaced(() => controller.abort(new DOMException('not in time', 'TimeoutError')), delay).unref();
    return controller.signal;
  }

  before(async () => {
    connection = await mongoose.createConnection(freshUri()).asPromise();
    answeredAt = now();
    pacing = pace();
    globalThis.setTimeout = startPaced as typeof setTimeout;
    AbortSignal.timeout = abortPaced;
  });
  after(async () => {
    globalThis.setTimeout = start;
    AbortSignal.timeout = timeout;
    isOver = true;
    await pacing;
    dropLater(connection);
  });
}
