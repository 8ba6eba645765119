import { type ComponentChildren, createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';

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
