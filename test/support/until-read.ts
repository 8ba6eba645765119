import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves when this process has read what arrived a moment ago. A timer alone is not enough: after a pause, timers run before sockets are read. */
export async function untilRead(): Promise<void> {
  await sleep(50);
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
}
