import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { useAnnounce } from '../../shell/announce.tsx';

interface Props {
  readonly children: ComponentChildren;
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  readonly type?: 'button' | 'submit';
  /** Under way: it stays focusable, and does nothing. */
  readonly busy?: boolean;
  readonly disabled?: boolean;
  /** Why it does nothing at present: shown on hover and read out, and announced on a click. */
  readonly disabledReason?: string | false | undefined;
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
  disabledReason,
  wide,
  label,
  pressed,
  onClick,
}: Props) {
  const id = useId();
  const announce = useAnnounce();
  const button = (
    <button
      type={type}
      class={`button button-${kind}${wide ? ' button-wide' : ''}${disabledReason ? ' button-off' : ''}`}
      disabled={disabled}
      aria-disabled={busy || disabledReason ? true : undefined}
      aria-describedby={disabledReason ? id : undefined}
      title={disabledReason || undefined}
      aria-label={label}
      aria-pressed={pressed}
      onClick={(event) => {
        if (busy || disabledReason) event.preventDefault();
        else onClick?.();
        if (disabledReason) announce(disabledReason);
      }}
    >
      {busy && <span class="spinner" aria-hidden="true" />}
      {children}
    </button>
  );
  if (!disabledReason) return button;
  return (
    <>
      {button}
      <span id={id} class="visually-hidden">
        {disabledReason}
      </span>
    </>
  );
}
