import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { BackIcon } from '../elements/icons.tsx';

interface Props {
  /** The window's title; the heading too, unless children say more. */
  readonly title: string;
  readonly children?: ComponentChildren;
  /** Where it belongs. */
  readonly up?: { readonly name: string; readonly href: string };
  readonly actions?: ComponentChildren;
}

/** The head of a view. It takes the focus when the view opens, so that screen readers say where they are. */
export function Heading({ title, children, up, actions }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Webhooks`;
  }, [title]);
  // before the page is painted, so that a key pressed once the view is visible goes to that view
  useLayoutEffect(() => {
    heading.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, []);
  return (
    <div class="heading">
      {up && (
        <a class="up" href={up.href}>
          <BackIcon />
          {up.name}
        </a>
      )}
      <div class="heading-row">
        <h1 tabIndex={-1} ref={heading}>
          {children ?? title}
        </h1>
        {actions && <div class="actions">{actions}</div>}
      </div>
    </div>
  );
}
