import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
export const collectGarbage: () => void = runInNewContext('gc');

/** Bytes that this process holds once garbage is gone: by JavaScript, and by buffers. */
export async function heldMemory(): Promise<number> {
  for (let i = 0; i < 3; i += 1) {
    collectGarbage();
    // buffers are given back some turns after their owners
    await new Promise(setImmediate);
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
