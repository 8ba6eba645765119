import type { ComponentChildren } from 'preact';
import { circle, Icon, warning } from './icons.tsx';

/** Each state has its own shape, so that colours are not needed to tell them apart. */
const shapes = {
  good: `${circle}M5.2 8.2l1.9 1.9 3.7-4`,
  bad: 'M5.4 1.75h5.2l3.65 3.65v5.2l-3.65 3.65H5.4L1.75 10.6V5.4zM6 6l4 4m0-4-4 4',
  waiting: 'M8 5v3l2 1.3',
  stopped: `${circle}M5 8h6`,
  paused: 'M2.5 2.5h11v11h-11zM6.5 6v4M9.5 6v4',
  uneasy: warning,
  idle: circle,
} as const;

export type StateShape = keyof typeof shapes;

export function StateIcon({ shape }: { shape: StateShape }) {
  return (
    <Icon size={14}>
      {shape === 'waiting' && <path d={circle} stroke-dasharray="2.6 2.3" />}
      <path d={shapes[shape]} />
    </Icon>
  );
}

/** How something stands, in a word or two. */
export interface Status {
  readonly shape: StateShape;
  readonly words: string;
  /** Something is under way at this moment. */
  readonly live?: boolean;
}

/** A state: shape, words and colour. */
export function Badge({ shape, live, children }: Omit<Status, 'words'> & { readonly children: ComponentChildren }) {
  return (
    <span class={`badge badge-${shape}${live ? ' badge-live' : ''}`}>
      <StateIcon shape={shape} />
      {children}
    </span>
  );
}

export function StatusBadge({ status: { words, ...state } }: { status: Status }) {
  return <Badge {...state}>{words}</Badge>;
}

/** A plain word beside something. */
export function Tag({ children }: { children: ComponentChildren }) {
  return <span class="tag">{children}</span>;
}

/** Plain words, each apart. */
export function Tags({ of }: { of: readonly string[] }) {
  return (
    <span class="wrap tags">
      {of.map((word) => (
        <Tag key={word}>{word}</Tag>
      ))}
    </span>
  );
}
