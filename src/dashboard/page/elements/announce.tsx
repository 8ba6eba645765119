import { type ComponentChildren, createContext } from 'preact';
import { useCallback, useContext, useRef, useState } from 'preact/hooks';

const Announce = createContext<(text: string) => void>(() => {});

/** Says what has been done, on the page and to screen readers, and disappears after a while. */
export function Announcements({ children }: { children: ComponentChildren }) {
  const [text, setText] = useState('');
  const timer = useRef<number>(undefined);
  const announce = useCallback((said: string) => {
    clearTimeout(timer.current);
    setText(said);
    timer.current = window.setTimeout(() => setText(''), 4_000);
  }, []);
  return (
    <Announce.Provider value={announce}>
      {children}
      <div class="toasts" role="status" aria-live="polite">
        {text && <p class="toast">{text}</p>}
      </div>
    </Announce.Provider>
  );
}

export function useAnnounce(): (text: string) => void {
  return useContext(Announce);
}
