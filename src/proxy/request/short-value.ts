import type { Span } from '../../http/operation.ts';

/** Nothing that is acted on is longer, however it is escaped. Bytes. */
export const longestValue = 4_096;

const openBrace = 0x7b;
const openBracket = 0x5b;

/** The value of a field when it is short and neither an object nor a list; `undefined` for what cannot be acted on. Pure. */
export function shortValue(bytes: Buffer, span: Span | undefined): unknown {
  if (!span || span.end - span.start > longestValue) return undefined;
  if (bytes[span.start] === openBrace || bytes[span.start] === openBracket) return undefined;
  return JSON.parse(bytes.toString('utf8', span.start, span.end));
}
