/**
 * What could move a cursor, hide text or turn its direction: C0 and C1 controls, DEL, zero-width and bidirectional
 * controls, line and paragraph separators, tags, lone surrogates.
 */
const unprintable =
  /[\p{Cc}\p{Cs}\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

function escaped(character: string): string {
  const code = character.codePointAt(0) as number;
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, '0')}`;
  return `\\u{${code.toString(16)}}`;
}

/** Text of any origin as one line that does nothing to a terminal but appear on it: controls are shown, not sent. */
export function printable(text: string): string {
  return text.replace(unprintable, escaped);
}

/** The same for text that may have several lines, which stay; tabs become spaces. */
export function printableLines(text: string): string[] {
  return text.split(/\r?\n/).map((line) => printable(line.replaceAll('\t', '    ')));
}

/** JSON that is the same value to a program and harmless on a terminal. */
export function toJson(value: unknown, indent?: number): string {
  const json = JSON.stringify(value, null, indent);
  const inStrings = /[\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
  return json.replace(inStrings, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
