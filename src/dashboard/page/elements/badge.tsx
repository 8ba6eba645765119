import type { ComponentChildren } from 'preact';
import { StateIcon, type StateShape } from './icons.tsx';

interface Props {
  readonly shape: StateShape;
  readonly children: ComponentChildren;
  /** Something is under way at this moment. */
  readonly live?: boolean;
}

/** A state: shape, words and colour. */
export function Badge({ shape, children, live }: Props) {
  return (
    <span class={`badge badge-${shape}${live ? ' badge-live' : ''}`}>
      <StateIcon shape={shape} />
      {children}
    </span>
  );
}

/** A plain word beside something. */
export function Tag({ children }: { children: ComponentChildren }) {
  return <span class="tag">{children}</span>;
}
