import { CopyButton } from './inputs/copy.tsx';

/** JSON with line breaks; anything else as it is. */
function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

interface Props {
  readonly title: string;
  /** Shown as text, whatever it holds; copied exactly as it is. */
  readonly text: string;
  readonly empty?: string;
}

/** Text that came from elsewhere. */
export function Code({ title, text, empty = 'Nothing' }: Props) {
  return (
    <section class="code" aria-label={title}>
      <div class="code-head">
        <span>{title}</span>
        {text !== '' && <CopyButton text={text} what={title.toLowerCase()} />}
      </div>
      {text === '' ? (
        <p class="muted code-empty">{empty}</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <pre tabIndex={0}>{prettyJson(text)}</pre>
      )}
    </section>
  );
}
