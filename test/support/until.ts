import { setTimeout as sleep } from 'node:timers/promises';

/** The time, also where a test has a clock stand. */
const now = performance.now.bind(performance);

/** How long is waited for what ought to happen at once; only a failure takes that long. Milliseconds. */
const maxWait = 30_000;

/** Asks again and again until the answer `holds`, and returns it. */
export async function eventually<T>(
  ask: () => T | Promise<T>,
  holds: (answer: T) => boolean,
  within = maxWait,
): Promise<T> {
  const deadline = now() + within;
  for (;;) {
    const answer = await ask();
    if (holds(answer)) return answer;
    if (now() > deadline) throw new Error(`after ${within} ms it is still ${JSON.stringify(answer)}`);
    // the pause between two looks
    await sleep(10);
  }
}

/** Resolves when it is so, in the sense of an `if`. @param what to say of it when that takes too long */
export async function until(isSo: () => unknown, within = maxWait, what?: string): Promise<void> {
  const deadline = now() + within;
  while (!(await isSo())) {
    if (now() > deadline) throw new Error(`not within ${within} ms: ${what ?? isSo}`);
    // the pause between two looks
    await sleep(10);
  }
}
