import type { ComponentChildren } from 'preact';

interface Props {
  readonly children: ComponentChildren;
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  readonly type?: 'button' | 'submit';
  /** Under way: it stays focusable, and does nothing. */
  readonly busy?: boolean;
  readonly disabled?: boolean;
  readonly wide?: boolean;
  /** Where the text alone does not say what it is about. */
  readonly label?: string;
  /** Of a toggle. */
  readonly pressed?: boolean;
  readonly onClick?: () => void;
}

export function Button({
  children,
  kind = 'plain',
  type = 'button',
  busy,
  disabled,
  wide,
  label,
  pressed,
  onClick,
}: Props) {
  return (
    <button
      type={type}
      class={`button button-${kind}${wide ? ' button-wide' : ''}`}
      disabled={disabled}
      aria-disabled={busy ? true : undefined}
      aria-label={label}
      aria-pressed={pressed}
      onClick={(event) => {
        if (busy) event.preventDefault();
        else onClick?.();
      }}
    >
      {busy && <span class="spinner" aria-hidden="true" />}
      {children}
    </button>
  );
}
