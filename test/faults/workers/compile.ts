import { fileURLToPath } from 'node:url';
import { compiledScript } from '../../support/processes/compiled-script.ts';

const compiled = (name: string) => compiledScript(fileURLToPath(new URL(name, import.meta.url)));

/** What a worker process is started with, as paths of plain JavaScript. */
export interface CompiledWorker {
  readonly worker: string;
  /** What is loaded before it. */
  readonly preloaded: readonly string[];
}

/** Compiles the worker and what is loaded before it. */
export async function compileWorker(): Promise<CompiledWorker> {
  const [worker, ...preloaded] = await Promise.all([
    compiled('worker.ts'),
    ...['skew.ts', 'names.ts', 'readings.ts'].map(compiled),
  ]);
  return { worker, preloaded };
}
