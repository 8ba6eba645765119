import type { ComponentChildren } from 'preact';

/** Lets a wide table without any controls scroll where the page is narrower. */
export function Scroll({ children }: { children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <div class="scroll-x" tabIndex={0}>
      {children}
    </div>
  );
}
