import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';
import { useAnnounce } from './announce.tsx';
import { CopyIcon, DoneIcon } from './icons.tsx';

interface ButtonProps {
  readonly children: ComponentChildren;
  /** `icon` has nothing else, so it needs a label. */
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet' | 'small' | 'icon';
  readonly type?: 'button' | 'submit';
  /** Under way: it stays focusable, and does nothing. */
  readonly busy?: boolean;
  readonly disabled?: boolean;
  /** Why it does nothing at present: shown on hover and read out, and announced on a click. */
  readonly disabledReason?: string | false | undefined;
  /** Where the text alone does not say what it is about. */
  readonly label?: string;
  /** What is shown on hover. */
  readonly title?: string;
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
  label,
  title,
  pressed,
  onClick,
}: ButtonProps) {
  const id = useId();
  const announce = useAnnounce();
  return (
    <>
      <button
        type={type}
        class={`button button-${kind}${disabledReason ? ' button-off' : ''}`}
        disabled={disabled}
        aria-disabled={busy || disabledReason ? true : undefined}
        aria-describedby={disabledReason ? id : undefined}
        title={disabledReason || title}
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
      {disabledReason && (
        <span id={id} class="visually-hidden">
          {disabledReason}
        </span>
      )}
    </>
  );
}

interface CopyProps {
  readonly text: string;
  /** What is copied: `delivery id`. */
  readonly what: string;
  readonly children?: string;
}

export function CopyButton({ text, what, children }: CopyProps) {
  const announce = useAnnounce();
  const [copied, setCopied] = useState(false);
  async function onClick() {
    await copy(text);
    announce(`Copied: ${what}`);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  }
  const label = `Copy ${what}`;
  return (
    <Button kind={children ? 'small' : 'icon'} label={label} title={label} onClick={() => void onClick()}>
      {copied ? <DoneIcon /> : <CopyIcon />}
      {children}
    </Button>
  );
}

/** An id in full, with a button to copy it. */
export function Id({ id, what }: { id: string; what: string }) {
  return (
    <span class="id">
      <code>{id}</code>
      <CopyButton text={id} what={what} />
    </span>
  );
}

/** Puts text on the clipboard; the old way where the browser keeps the new one for secure origins. */
async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}
