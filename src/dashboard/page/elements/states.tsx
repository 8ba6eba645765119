import type { ComponentChildren } from 'preact';
import { useContext } from 'preact/hooks';
import type { ApiError } from '../data/error.ts';
import type { Query } from '../data/query.ts';
import { href } from '../data/route.ts';
import { SessionContext } from '../data/session.ts';
import { Button } from './button.tsx';
import { WarnIcon } from './icons.tsx';

/** Says that there is nothing, and what to do about it. */
export function Empty({ title, text, children }: { title: string; text?: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {text && <p class="muted">{text}</p>}
      {children}
    </div>
  );
}

/** Grey lines where text is going to be. They stay invisible for a moment, so that a quick answer does not flicker. */
export function Skeleton({ lines = 4 }: { lines?: number | undefined }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, i) => (
        <span key={i} class="skeleton-line" />
      ))}
    </div>
  );
}

/** A code of an error, which leads to what it means. */
export function ErrorCode({ code }: { code: string }) {
  // nobody who is not signed in gets there
  const isSignedIn = useContext(SessionContext) !== null;
  const text = <code>{code}</code>;
  return isSignedIn ? <a href={href(['errors', code])}>{text}</a> : text;
}

/** What went wrong, the request id for the operator, and a button to try again. */
export function Failure({ error, again }: { error: ApiError; again?: () => void }) {
  return (
    <div class="line card card-bad notice" role="alert">
      <WarnIcon />
      <div>
        <p>{error.message}</p>
        <p class="muted small">
          {error.isOfApi ? <ErrorCode code={error.code} /> : <code>{error.code}</code>}
          {error.requestId && (
            <>
              {' · request '}
              <code>{error.requestId}</code>
            </>
          )}
        </p>
      </div>
      {again && <Button onClick={again}>Try again</Button>}
    </div>
  );
}

interface LoadedProps<T> {
  readonly query: Query<T>;
  /** @default 4 */
  readonly lines?: number | undefined;
  /** Stands above as long as there is no data. */
  readonly head?: ComponentChildren;
  readonly children: (data: T) => ComponentChildren;
}

/** The state of a query: a skeleton, the failure, or the data. */
export function Loaded<T>({ query: { data, error, reload }, lines, head, children }: LoadedProps<T>) {
  return data === undefined ? (
    <>
      {head}
      {error ? <Failure error={error} again={reload} /> : <Skeleton lines={lines} />}
    </>
  ) : (
    <>
      {error && <p class="note">This could not be refreshed just now: {error.message}</p>}
      {children(data)}
    </>
  );
}
