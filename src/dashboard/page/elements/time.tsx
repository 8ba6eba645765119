import { useNow } from '../data/clock.tsx';
import { fromNow, localTime, span, utcTime } from '../format/time.ts';

/** A moment in the reader's zone; in UTC on hover. */
export function Time({ at }: { at: string }) {
  return (
    <time dateTime={at} title={utcTime(at)}>
      {localTime(at)}
    </time>
  );
}

/** How long ago, or how far ahead; exactly on hover. */
export function Ago({ at }: { at: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={`${localTime(at)} (${utcTime(at)})`}>
      {fromNow(at, now)}
    </time>
  );
}

/** How long it still takes. */
export function Countdown({ to }: { to: string }) {
  const remaining = Date.parse(to) - useNow();
  return (
    <time dateTime={to} title={`${localTime(to)} (${utcTime(to)})`} class="numbers">
      {remaining < 1_000 ? 'now' : `in ${span(remaining)}`}
    </time>
  );
}
