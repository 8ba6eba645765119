import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves when this process has read what arrived a moment ago. */
export async function untilRead(): Promise<void> {
  await sleep(50); // for the bytes to arrive
  // a timer alone is not enough: after a pause, timers run before sockets are read
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
}
