import { useState } from 'preact/hooks';
import { ApiError } from '../api/error.ts';

/** Something that the user starts, and its state. */
export interface Action<A extends unknown[]> {
  run(...args: A): Promise<void>;
  readonly running: boolean;
  readonly error: ApiError | undefined;
}

/** Runs one at a time: a second click while the first is under way does nothing. */
export function useAction<A extends unknown[]>(act: (...args: A) => Promise<void>): Action<A> {
  const [running, setRunning] = useState(false);
  const [error, setError] = useState<ApiError>();
  return {
    running,
    error,
    async run(...args) {
      if (running) return;
      setRunning(true);
      setError(undefined);
      try {
        await act(...args);
      } catch (thrown) {
        setError(
          thrown instanceof ApiError ? thrown : new ApiError(String(thrown), { status: 0, code: 'page_failed' }),
        );
      } finally {
        setRunning(false);
      }
    },
  };
}
