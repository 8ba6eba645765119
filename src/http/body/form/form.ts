import { setImmediate as nextTurn } from 'node:timers/promises';
import { GatewayError } from '../../../errors.ts';
import { type PartHead, readPartHead } from './form-part.ts';

/** One part of a form: its head, and the position of its content in the body. */
export interface FormPart extends Omit<PartHead, 'length'> {
  readonly start: number;
  readonly end: number;
  /** The position of its Content-Length, which changes with its content. */
  readonly lengthAt: number | undefined;
}

/** A form as it came. Its parts point into `bytes`. */
export interface Form {
  readonly bytes: Buffer;
  readonly parts: readonly FormPart[];
}

/** How many parts a form may have; common form readers take as many. */
const partLimit = 1_000;
/** How long the head of a part may be. Bytes. */
const headLimit = 8 * 1024;

/** How many blank lines may stand before the first boundary and behind the last. */
const blankLineLimit = 100;

/** Bytes that are searched in one turn of the event loop. */
const stride = 4 * 1024 * 1024;

function refuseForm(problem: string): never {
  throw new GatewayError('invalid_form', `The form ${problem}`);
}

const token = String.raw`[\w'+.-]{1,70}`;
const quoted = String.raw`"[\w'()+,./:=?-]{1,70}"`;
const charset = String.raw`(?:;[ \t]*charset=(?:utf-8|"utf-8"))?`;
const formType = new RegExp(`^multipart/form-data${charset};[ \\t]*boundary=(${token}|${quoted})${charset};?$`, 'i');

/** The boundary between the parts (RFC 2046, section 5.1.1). */
function boundaryOf(contentType: string): string {
  const boundary = formType.exec(contentType)?.[1];
  if (boundary !== undefined) return boundary.startsWith('"') ? boundary.slice(1, -1) : boundary;
  const problem = /boundary/i.test(contentType)
    ? 'must be multipart/form-data; boundary=… with one boundary of 1 to 70 letters, digits and marks; only charset=utf-8 may be beside it'
    : 'must name the boundary of the form, multipart/form-data; boundary=…: let your HTTP client set it';
  throw new GatewayError('invalid_form', `content-type: ${problem}`, { param: 'content-type' });
}

/** Whether the bytes have a text at a position. */
function standsAt(bytes: Buffer, at: number, text: string): boolean {
  return bytes.toString('latin1', at, at + text.length) === text;
}

/** The position behind the blank lines that begin at `from`. */
function skipBlankLines(bytes: Buffer, from: number): number {
  let at = from;
  while (at < from + 2 * blankLineLimit && standsAt(bytes, at, '\r\n')) at += 2;
  return at;
}

/** The position of a text at or after `from`; -1 when there is none. */
async function find(bytes: Buffer, text: Buffer, from: number): Promise<number> {
  for (let start = from; start < bytes.length; await nextTurn()) {
    const end = start - (start % stride) + stride;
    const at = bytes.subarray(start, end + text.length - 1).indexOf(text);
    if (at !== -1) return start + at;
    start = end;
  }
  return -1;
}

/** Where a part stands in the bytes: its head up to the empty line, its content up to `end`. */
interface PartPosition {
  readonly headStart: number;
  readonly headEnd: number;
  readonly end: number;
}

/** @param number of the part, for errors: 1 is the first */
function toPart(bytes: Buffer, { headStart, headEnd, end }: PartPosition, number: number): FormPart {
  const head = readPartHead(bytes.subarray(headStart, headEnd));
  if (typeof head === 'string') refuseForm(`cannot be read alike by every reader: part ${number} ${head}`);
  const start = headEnd + 4;
  const { length, ...rest } = head;
  if (length && Number(length.digits) !== end - start) refuseForm(`has a wrong Content-Length in part ${number}`);
  return { ...rest, start, end, lengthAt: length && headStart + length.at };
}

/**
 * Reads a form (RFC 7578). Accepts only what every reader takes alike or refuses, so that the provider reads the same: lines end in
 * CRLF, nothing but blank lines comes before the first boundary or after the last, and the boundary is nowhere else. Form libraries
 * accept more than that, and do not tell where a part stands in the bytes, which go up unchanged.
 * @throws GatewayError `invalid_form`
 */
export async function readForm(bytes: Buffer, contentType: string): Promise<Form> {
  const boundary = boundaryOf(contentType);
  const pattern = Buffer.from(boundary);
  const parts: FormPart[] = [];
  const first = skipBlankLines(bytes, 0);
  if (!standsAt(bytes, first, `--${boundary}`)) {
    refuseForm('must begin with its boundary, the one that content-type names; only blank lines may come before it');
  }
  let at = first + 2 + boundary.length;
  while (!standsAt(bytes, at, '--')) {
    if (parts.length === partLimit) refuseForm(`has more than ${partLimit} parts`);
    if (!standsAt(bytes, at, '\r\n')) refuseForm('must have CRLF, and nothing else, behind its boundary');
    const headStart = at + 2;
    const headLength = bytes.subarray(headStart, headStart + headLimit).indexOf('\r\n\r\n');
    if (headLength === -1) refuseForm(`has a part whose head has no end, or more than ${headLimit} bytes`);
    const headEnd = headStart + headLength;
    const next = await find(bytes, pattern, headEnd + 4);
    if (next === -1) refuseForm('must end in its boundary and --');
    const end = next - 4;
    if (end < headEnd + 4 || !standsAt(bytes, end, '\r\n--')) {
      refuseForm('must have its boundary only between its parts, in lines of their own; use another boundary');
    }
    parts.push(toPart(bytes, { headStart, headEnd, end }, parts.length + 1));
    at = next + boundary.length;
  }
  if (skipBlankLines(bytes, at + 2) !== bytes.length) {
    refuseForm('must end with its last boundary; only blank lines may come behind it');
  }
  return { bytes, parts };
}
