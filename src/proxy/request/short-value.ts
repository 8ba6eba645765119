import type { ByteRange } from '../../http/operation.ts';

/** The longest value that the relay acts on, escapes included. Bytes. */
export const longestValue = 4_096;

const openBrace = 0x7b;
const openBracket = 0x5b;

/** The value of a field that is short and neither an object nor a list; otherwise `undefined`. Pure. */
export function shortValue(bytes: Buffer, span: ByteRange | undefined): unknown {
  if (!span || span.end - span.start > longestValue) return undefined;
  if (bytes[span.start] === openBrace || bytes[span.start] === openBracket) return undefined;
  return JSON.parse(bytes.toString('utf8', span.start, span.end));
}
