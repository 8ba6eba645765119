import { Worker } from 'node:worker_threads';

/** A piece of work that takes a few milliseconds where nothing else runs. Milliseconds in between. */
const interval = 250;
const source = `
const { parentPort } = require('node:worker_threads');
const { createHash } = require('node:crypto');
setInterval(() => {
  const startedAt = performance.now();
  let text = '';
  for (let i = 0; i < 4_000; i += 1) text = createHash('sha256').update(text).digest('hex');
  parentPort.postMessage({ at: Date.now(), took: performance.now() - startedAt });
}, ${interval});
`;

/** How slow the machine is, by what the same piece of work takes again and again in a thread of its own. */
export interface MachinePace {
  /** How many times as long as at its fastest the work took on average in this time, 1 at least. Milliseconds since 1970. */
  slowness(from: number, to: number): number;
  stop(): Promise<unknown>;
}

export function startMachinePace(): MachinePace {
  const turns: { readonly at: number; readonly took: number }[] = [];
  const worker = new Worker(source, { eval: true });
  worker.on('message', (turn) => turns.push(turn));
  worker.unref();
  return {
    slowness(from, to) {
      const fastest = Math.min(...turns.map(({ took }) => took));
      const met = turns.filter(({ at, took }) => at >= from && at - took <= to);
      if (met.length === 0) return 1;
      return Math.max(1, met.reduce((sum, { took }) => sum + took, 0) / met.length / fastest);
    },
    stop: () => worker.terminate(),
  };
}
