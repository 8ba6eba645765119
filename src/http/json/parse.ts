import { isUtf8 } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { GatewayError } from '../../errors.ts';
import type { FieldRange } from '../operation.ts';
import { type BodyShape, JsonScan } from './scan.ts';
import { NotJson } from './tokens.ts';

/** Bytes that are scanned in one turn of the event loop, which takes some milliseconds. */
const sliceLength = 256 * 1024;

/** The parts of a JSON body that a relay reads. */
interface Outline {
  /** The parsed values that the shape describes; strings of more than 64 bytes are `…`. */
  readonly value: unknown;
  /** The positions of described values, by path, such as `stream_options.include_usage`. */
  readonly fields: ReadonlyMap<string, FieldRange>;
}

function checkUtf8(bytes: Buffer): void {
  if (!isUtf8(bytes)) throw new GatewayError('invalid_encoding', 'The body must be UTF-8');
}

/** The number of the character, counted from 1, that a byte belongs to. */
function characterAt(bytes: Buffer, at: number): number {
  let count = 1;
  // all bytes of a character but the first start with 10 (RFC 3629, section 3)
  for (let i = 0; i < at; i += 1) if (((bytes[i] as number) & 0xc0) !== 0x80) count += 1;
  return count;
}

/** Says where the text stops being JSON. Quotes none of it, because it may hold a secret. */
function whereItBreaks(bytes: Buffer, { at }: NotJson): string {
  if (at < bytes.length) return `look at character ${characterAt(bytes, at)}`;
  return bytes.length < sliceLength && bytes.toString('latin1').trim() === '' ? 'it is empty' : 'it breaks off';
}

/** Runs a scan to a position. @throws GatewayError what the scan throws, and `invalid_json` for text that is not JSON (RFC 8259) */
function scanOn(scan: JsonScan, bytes: Buffer, until: number): boolean {
  try {
    return scan.run(until);
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    throw new GatewayError('invalid_json', `The body is not valid JSON: ${whereItBreaks(bytes, error)}`);
  }
}

/** @param path of the number; '' where it is the whole body */
function numberNotExact(path: string): GatewayError {
  const problem = 'has more digits than JSON numbers keep, so it would change: send it as a string';
  if (path === '') return new GatewayError('number_not_exact', `The body ${problem}`);
  return new GatewayError('number_not_exact', `${path}: ${problem}`, { param: path });
}

/**
 * Decodes and parses a JSON body.
 * @throws GatewayError `invalid_encoding` when the bytes are not UTF-8; `invalid_json` when they are not JSON (RFC 8259)
 * or nest deeper than 100 levels; `request_too_large` when they would parse to too much;
 * `duplicate_parameter` when one object has a key twice; `number_not_exact` for a number that would be written again as another one
 */
export function parseJson(bytes: Buffer): unknown {
  checkUtf8(bytes);
  const scan = new JsonScan(bytes);
  scanOn(scan, bytes, bytes.length);
  const { duplicateKey, changedNumber } = scan;
  if (duplicateKey !== undefined) {
    throw new GatewayError('duplicate_parameter', `${duplicateKey}: appears twice in the body; give it once`, {
      param: duplicateKey,
    });
  }
  if (changedNumber !== undefined) throw numberNotExact(changedNumber);
  return JSON.parse(bytes.toString('utf8'));
}

/**
 * Reads the described parts of a body that is relayed as it came. Scans a long body in several turns of the event loop.
 * @throws GatewayError as {@link parseJson} does, but `duplicate_parameter` only for described keys outside lists, and
 * `unknown_parameter` for a key that differs from such a key only in case, which another reader might take for it
 */
export async function outline(bytes: Buffer, shape: BodyShape): Promise<Outline> {
  const isLong = bytes.length > sliceLength;
  // joining its chunks has taken a turn already
  if (isLong) await nextTurn();
  checkUtf8(bytes);
  const scan = new JsonScan(bytes, shape);
  let until = 0;
  do {
    if (until > 0) await nextTurn();
    until = Math.min(bytes.length, until + sliceLength);
  } while (!scanOn(scan, bytes, until));
  return scan;
}
