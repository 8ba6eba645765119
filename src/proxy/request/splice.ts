import type { Span } from '../../http/operation.ts';

/** A span of bytes and what stands there instead; an empty span inserts. */
export interface Edit extends Span {
  readonly text: string;
}

/** Shorter bytes are copied; of longer ones a copy would be memory that nobody counts. */
const worthPieces = 64 * 1024;

/**
 * The bytes with the edits made and everything else as it was: as one buffer, or, where they are many, in pieces that
 * share their memory. Pure; edits must not overlap.
 */
export function splice(bytes: Buffer, edits: readonly Edit[]): Buffer | readonly Buffer[] {
  if (edits.length === 0) return bytes;
  const parts: Buffer[] = [];
  let at = 0;
  for (const { start, end, text } of edits.toSorted((a, b) => a.start - b.start)) {
    parts.push(bytes.subarray(at, start), Buffer.from(text));
    at = end;
  }
  parts.push(bytes.subarray(at));
  return bytes.length > worthPieces ? parts : Buffer.concat(parts);
}
