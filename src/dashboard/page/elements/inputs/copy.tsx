import { useState } from 'preact/hooks';
import { useAnnounce } from '../../shell/announce.tsx';
import { CopyIcon, DoneIcon } from '../icons.tsx';

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

interface Props {
  readonly text: string;
  /** What is copied: `delivery id`. */
  readonly what: string;
  readonly children?: string;
}

export function CopyButton({ text, what, children }: Props) {
  const announce = useAnnounce();
  const [copied, setCopied] = useState(false);
  async function onClick() {
    await copy(text);
    announce(`Copied: ${what}`);
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  }
  return (
    <button
      type="button"
      class={children ? 'button button-plain button-small' : 'icon-button'}
      aria-label={`Copy ${what}`}
      title={`Copy ${what}`}
      onClick={() => void onClick()}
    >
      {copied ? <DoneIcon /> : <CopyIcon />}
      {children}
    </button>
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
