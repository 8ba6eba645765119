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

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** A time span in one word: `12s`, `3m`, `5h`, `2d`; milliseconds below a second. */
export function spanOf(ms: number): string {
  if (ms < second) return `${Math.max(0, Math.round(ms))}ms`;
  if (ms < minute) return `${Math.floor(ms / second)}s`;
  if (ms < hour) return `${Math.floor(ms / minute)}m`;
  return ms < 2 * day ? `${Math.floor(ms / hour)}h` : `${Math.floor(ms / day)}d`;
}

/** How far a time is from now: `3m ago`, `in 12s`, `now`. */
export function relative(moment: string, now: number): string {
  const distance = now - Date.parse(moment);
  if (Math.abs(distance) < second) return 'now';
  return distance > 0 ? `${spanOf(distance)} ago` : `in ${spanOf(-distance)}`;
}

/** A time in the reader's time zone: `2026-01-31 18:05:09`. */
export function localTime(moment: string | number): string {
  // in Sweden, dates are written by ISO 8601
  return new Date(moment).toLocaleString('sv-SE');
}

/** Both: `2026-01-31 18:05:09 (3m ago)`. */
export function momentOf(moment: string, now: number): string {
  return `${localTime(moment)} (${relative(moment, now)})`;
}

/** An amount of tokens, requests or credits. */
export function figure(amount: number): string {
  return amount.toLocaleString('en-US', { maximumFractionDigits: 6 });
}

/** The type of an event, and whether it is a test. */
export function typeText({ type, test }: { readonly type: string; readonly test: boolean }): string {
  return test ? `${type} (test)` : type;
}
