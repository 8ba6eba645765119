import type { ComponentChildren } from 'preact';

interface Props {
  readonly facts: readonly (readonly [name: string, value: ComponentChildren])[];
  /** The names of those that need a line of their own. */
  readonly wide?: readonly string[];
}

/** Names and values of one thing. */
export function Facts({ facts, wide = [] }: Props) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name} class={wide.includes(name) ? 'wide' : undefined}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
