import type { Span } from './json-scan.ts';

/** A span of bytes and what stands there instead; an empty span inserts. */
export interface Edit extends Span {
  readonly text: string;
}

/** The bytes with the edits made and everything else as it was. Pure; edits must not overlap. */
export function splice(bytes: Buffer, edits: readonly Edit[]): Buffer {
  if (edits.length === 0) return bytes;
  const parts: Buffer[] = [];
  let at = 0;
  for (const { start, end, text } of edits.toSorted((a, b) => a.start - b.start)) {
    parts.push(bytes.subarray(at, start), Buffer.from(text));
    at = end;
  }
  parts.push(bytes.subarray(at));
  return Buffer.concat(parts);
}
