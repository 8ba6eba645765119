import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { href } from '../data/route.ts';
import { type ViewName, viewTitle } from '../shell/views.ts';
import { StateIcon, type StateShape } from './badge.tsx';
import { CopyButton } from './button.tsx';
import { BackIcon } from './icons.tsx';

interface HeadingProps {
  /** The window's title; the heading too, unless children say more. */
  readonly title: string;
  readonly children?: ComponentChildren;
  /** The view that it belongs to. */
  readonly up?: ViewName;
  readonly actions?: ComponentChildren;
}

/** The head of a view. It takes the focus when the view opens, so that screen readers say where they are. */
export function Heading({ title, children, up, actions }: HeadingProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Gateway`;
  }, [title]);
  // before the page is painted, so that a key pressed once the view is visible goes to that view
  useLayoutEffect(() => {
    heading.current?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, []);
  return (
    <div class="heading">
      {up && (
        <a class="up muted" href={href([up])}>
          <BackIcon />
          {viewTitle(up)}
        </a>
      )}
      <div class="heading-row wrap spread">
        <h1 class="wrap" tabIndex={-1} ref={heading}>
          {children ?? title}
        </h1>
        {actions && <div class="wrap actions">{actions}</div>}
      </div>
    </div>
  );
}

interface CardProps {
  /** What it is called, if not by its title. */
  readonly label?: string;
  /** The id of its title, which is what it is called. */
  readonly id?: string;
  readonly title?: ComponentChildren;
  /** What stands beside the title. */
  readonly aside?: ComponentChildren;
  /** Whether it shows what went wrong. */
  readonly bad?: boolean;
  /** Whether it holds text rather than a list, which reaches its edges. */
  readonly text?: boolean;
  readonly children: ComponentChildren;
}

/** A part of a view. */
export function Card({ label, id, title, aside, bad, text, children }: CardProps) {
  return (
    <section class={bad ? 'card card-bad' : 'card'} aria-labelledby={id} aria-label={label}>
      {title && (
        <div class="card-head wrap spread">
          <h2 id={id}>{title}</h2>
          {aside}
        </div>
      )}
      {text ? <div class="card-body">{children}</div> : children}
    </section>
  );
}

interface NoticeProps {
  readonly icon?: StateShape;
  /** Whether it is about what went wrong. */
  readonly bad?: boolean;
  readonly children: ComponentChildren;
}

/** What one should know first. */
export function Notice({ icon, bad, children }: NoticeProps) {
  return (
    <div class={`line card notice${bad ? ' card-bad' : ''}`}>
      {icon && <StateIcon shape={icon} />}
      <p>{children}</p>
    </div>
  );
}

interface FactsProps {
  /** Those without a value are left out. */
  readonly facts: readonly (readonly [name: string, value: ComponentChildren])[];
  /** The names of those that need a line of their own. */
  readonly wide?: readonly string[];
}

/** Names and values of one thing. */
export function Facts({ facts, wide = [] }: FactsProps) {
  return (
    <dl class="facts">
      {facts.map(
        ([name, value]) =>
          value !== '' && (
            <div key={name} class={wide.includes(name) ? 'wide' : undefined}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

interface CodeProps {
  readonly title: string;
  /** Shown as text, whatever it holds; copied exactly as it is. */
  readonly text: string;
  readonly empty?: string;
}

/** Text that came from elsewhere. */
export function Code({ title, text, empty = 'Nothing' }: CodeProps) {
  return (
    <section class="card code" aria-label={title}>
      <div class="line spread muted small code-head">
        <span>{title}</span>
        {text !== '' && <CopyButton text={text} what={title.toLowerCase()} />}
      </div>
      {text === '' ? (
        <p class="muted small code-empty">{empty}</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <pre tabIndex={0}>{prettyJson(text)}</pre>
      )}
    </section>
  );
}

/** JSON with line breaks; anything else as it is. */
function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
