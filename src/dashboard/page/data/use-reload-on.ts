import { useEffect, useRef } from 'preact/hooks';

/** Fetches again as soon as something else has changed. */
export function useReloadOn(change: string, reload: () => void): void {
  const before = useRef(change);
  useEffect(() => {
    if (before.current !== change) reload();
    before.current = change;
  }, [change, reload]);
}
