import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type ReadParameters, type ReadPath, type ReadResult, read } from './api.ts';
import { type ApiError, asApiError } from './error.ts';
import { useSession } from './session.ts';

/** What was asked for, as far as it has been received. An error beside data means that the data could not be refreshed. */
export interface Query<T> {
  readonly data: T | undefined;
  readonly error: ApiError | undefined;
  reload(): void;
  /** Shows what an action has just answered, without asking again. */
  set(data: T): void;
}

/** Milliseconds until something is fetched again, as long as the page is visible; `null` is never. */
type Every<T> = number | null | ((data: T) => number | null);

/** How often what changes slowly is fetched again. Milliseconds. */
export const refreshEvery = 10_000;
/** Milliseconds from an error to the next automatic try. */
const retryDelay = 5_000;

/** Whether the same question may be answered a moment later: nothing came, the gateway is busy, or it has failed. */
function mayPass({ status }: ApiError): boolean {
  return status === 0 || status === 429 || status >= 500;
}

interface Held<T> {
  readonly key: string;
  readonly data?: T;
  readonly error?: ApiError;
}

/** Reads from the API, and again while there is something to wait for and the page is visible. */
export function useRead<Path extends ReadPath>(
  path: Path,
  params: ReadParameters<Path>,
  every: Every<ReadResult<Path>> = null,
): Query<ReadResult<Path>> {
  const { api } = useSession();
  return useQuery((signal) => read(api, path, params, signal), JSON.stringify([path, params]), every);
}

/**
 * As {@link useRead}, for what is not read by one call.
 * @param key what the query depends on: when it changes, the query starts again without data
 */
export function useQuery<T>(ask: (signal: AbortSignal) => Promise<T>, key: string, every: Every<T> = null): Query<T> {
  const { onUnauthorized } = useSession();
  const [held, setHeld] = useState<Held<T>>({ key });
  const [round, setRound] = useState(0);
  const latest = useRef({ ask, every });
  latest.current = { ask, every };
  const current: Held<T> = held.key === key ? held : { key };

  // the key identifies the query, the round each time that it is asked
  useEffect(() => {
    const leaving = new AbortController();
    latest.current
      .ask(leaving.signal)
      .then((data) => {
        if (!leaving.signal.aborted) setHeld({ key, data });
      })
      .catch((thrown) => {
        if (leaving.signal.aborted) return;
        const error = asApiError(thrown);
        if (error.status === 401) onUnauthorized();
        setHeld((before) => (before.key === key ? { ...before, error } : { key, error }));
      });
    return () => leaving.abort();
  }, [key, round]);

  const reload = useCallback(() => setRound((last) => last + 1), []);
  const set = useCallback(
    (data: T) => {
      setHeld({ key, data });
      // an answer to what was asked before is older than this one
      reload();
    },
    [key, reload],
  );

  useEffect(() => {
    const { data, error } = held;
    const { every } = latest.current;
    const nextOf = (data: T) => (typeof every === 'function' ? every(data) : every);
    const retry = error && (data || mayPass(error)) ? retryDelay : null;
    const wait = error ? retry : data ? nextOf(data) : null;
    if (wait === null) return;
    const due = Date.now() + wait;
    let timer: number | undefined;
    const arm = () => {
      clearTimeout(timer);
      if (!document.hidden) timer = window.setTimeout(reload, Math.max(0, due - Date.now()));
    };
    arm();
    document.addEventListener('visibilitychange', arm);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', arm);
    };
  }, [held, reload]);

  return { data: current.data, error: current.error, reload, set };
}

/** Something that the user starts, one at a time: a second click while the first is under way does nothing. */
export function useAction(act: () => Promise<void>) {
  const [running, setRunning] = useState(false);
  const [error, setError] = useState<ApiError>();
  return {
    running,
    error,
    async run() {
      if (running) return;
      setRunning(true);
      setError(undefined);
      try {
        await act();
      } catch (thrown) {
        setError(asApiError(thrown));
      } finally {
        setRunning(false);
      }
    },
  };
}
