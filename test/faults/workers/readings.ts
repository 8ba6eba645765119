import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Reading } from '../verdict/flatness.ts';

/** What a worker says when it is asked what it holds. */
export interface ReadingMessage {
  readonly reading: Reading;
}

/** Loaded before anything else: this process tells the suite what it holds whenever it asks. */
let warnings = 0;
process.on('warning', () => {
  warnings += 1;
});

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

process.on('message', ({ tellsReading }: { tellsReading?: boolean }) => {
  if (tellsReading !== true) return;
  collectGarbage();
  const handles: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) handles[kind] = (handles[kind] ?? 0) + 1;
  const { rss, heapUsed } = process.memoryUsage();
  const reading = { pid: process.pid, at: Date.now(), rss, heapUsed, handles, warnings };
  process.send?.({ reading } satisfies ReadingMessage);
});
