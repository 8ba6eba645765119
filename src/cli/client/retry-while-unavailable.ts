import { PassingFailure } from '../terminal/command-failure.ts';
import type { Terminal } from '../terminal/terminal.ts';

/**
 * Returns nothing while the gateway restarts or is busy, so that the caller reads again, and says once that it waits. The first
 * read must succeed.
 */
export function retryWhileUnavailable<T>(read: () => Promise<T[]>, { printNote }: Terminal): () => Promise<T[]> {
  let waiting: boolean | undefined;
  return async () => {
    try {
      const items = await read();
      if (waiting) printNote('It answers again.');
      waiting = false;
      return items;
    } catch (error) {
      if (waiting === undefined || !(error instanceof PassingFailure)) throw error;
      if (!waiting) printNote(`${error.message.split('\n')[0]} Waiting for it …`);
      waiting = true;
      return [];
    }
  };
}
