import { type ComponentChildren, createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import { localTime, span, timeFromNow, utcTime } from './format.ts';

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
      {timeFromNow(at, now)}
    </time>
  );
}

/** How long ago; in few words where it never was. */
export function AgoOr({ at, never = 'Never' }: { at: string | null; never?: string }) {
  return at ? <Ago at={at} /> : <span class="muted">{never}</span>;
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

const Now = createContext(Date.now());

/** Ticks once a second, as long as the page is visible, for everything that counts down or up. */
export function Clock({ children }: { children: ComponentChildren }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const tick = () => {
      if (!document.hidden) setNow(Date.now());
    };
    const timer = setInterval(tick, 1_000);
    document.addEventListener('visibilitychange', tick);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', tick);
    };
  }, []);
  return <Now.Provider value={now}>{children}</Now.Provider>;
}

/** The time, in milliseconds, a second old at most. */
export function useNow(): number {
  return useContext(Now);
}
