import { PassingFailure } from '../terminal/command-failure.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** Looks again after a gateway was restarted or busy, and says once that it waits; the first look must succeed. */
export function patiently<T>(look: () => Promise<T[]>, { tell }: Terminal): () => Promise<T[]> {
  let waiting: boolean | undefined;
  return async () => {
    try {
      const found = await look();
      if (waiting) tell('It answers again.');
      waiting = false;
      return found;
    } catch (error) {
      if (waiting === undefined || !(error instanceof PassingFailure)) throw error;
      if (!waiting) tell(`${error.message.split('\n')[0]} Waiting for it …`);
      waiting = true;
      return [];
    }
  };
}
