import { createHmac, randomFillSync } from 'node:crypto';
import { refuse } from './errors.ts';

/** What an id names: a webhook, an event, a delivery, an API key, a request, a worker, a usage record, a recovery, a process. */
export type IdPrefix = 'wh' | 'evt' | 'dlv' | 'key' | 'req' | 'wrk' | 'use' | 'rec' | 'prc';

/** Crockford's base 32 in lower case: sorts as it counts, has no look-alikes. */
const alphabet = Buffer.from('0123456789abcdefghjkmnpqrstvwxyz');
const timeLength = 10;
const tailLength = 16;

/**
 * The random bytes of the next 256 ids, drawn together because the kernel is asked once a draw. A relayed call makes two ids;
 * with a draw for each it takes 5 % more CPU.
 */
const random = Buffer.alloc(tailLength * 256);
let used = random.length;

/** Where the characters of an id are written: joined one by one, the texts between them take 0.8 KB an id. */
const characters = Buffer.alloc(timeLength + tailLength);

function writeTime(now: number): void {
  let rest = now;
  for (let i = timeLength - 1; i >= 0; i -= 1) {
    characters[i] = alphabet[rest % 32] as number;
    rest = Math.floor(rest / 32);
  }
}

/** Sorts before every id of this prefix made at `now` (ms) or later, and after every earlier one. */
export function firstId(prefix: IdPrefix, now: number): string {
  writeTime(now);
  return `${prefix}_${characters.toString('latin1', 0, timeLength)}`;
}

/** An id of a time and 16 bytes. */
function idOf(prefix: IdPrefix, now: number, bytes: Uint8Array, start: number): string {
  writeTime(now);
  for (let i = 0; i < tailLength; i += 1) {
    characters[timeLength + i] = alphabet[(bytes[start + i] as number) & 31] as number;
  }
  return `${prefix}_${characters.toString('latin1')}`;
}

/**
 * A new id: prefix, 10 characters of time (ms), 16 random ones (80 bits).
 * Sorts by time, cannot be guessed, safe in a URL.
 */
export function newId(prefix: IdPrefix, now: number): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  const start = used;
  // each byte is in one id only
  used += tailLength;
  return idOf(prefix, now, random, start);
}

/**
 * The same id whenever it is asked for again: the time, then 80 bits of an HMAC-SHA256 over the parts.
 * Makes doing a thing twice do nothing the second time.
 */
export function derivedId(prefix: IdPrefix, now: number, key: Buffer, ...parts: string[]): string {
  // the key as a text: Node 24.21 throws and catches two errors to find that bytes are no KeyObject, 30 µs in place of 5; 20.20 and 24.22 do not
  const mac = createHmac('sha256', key.toString('latin1'), { encoding: 'latin1' }).update(parts.join('\n')).digest();
  return idOf(prefix, now, mac, 0);
}

/** The part of an id that is its time: sorts as ids do, and is the same of an event and its deliveries. */
export function timeOf(id: string): string {
  return id.slice(id.indexOf('_') + 1).slice(0, timeLength);
}

/** Sorts before every id with the prefix and the time of this one, and after every earlier one. */
export function firstOfSameTime(id: string): string {
  return id.slice(0, id.indexOf('_') + 1 + timeLength);
}

/** Whether `text` has the form of an id with this prefix. */
export function isId(prefix: IdPrefix, text: unknown): boolean {
  if (typeof text !== 'string' || text.length !== prefix.length + 27) return false;
  return text.startsWith(`${prefix}_`) && /^[0-9a-z]{26}$/.test(text.slice(-26));
}

/** Keeps a text from being stored and found again unchanged: a NUL ends some of them, and half a surrogate pair has no UTF-8 form. */
const unstorable = /[\0\p{Surrogate}]/u;

/** Whether a text is stored and found again unchanged. */
export function isStorable(text: string): boolean {
  return !unstorable.test(text);
}

/** @throws GatewayError `invalid_value` unless the text is stored and found again unchanged */
export function checkStorable(param: string, text: string): void {
  if (unstorable.test(text)) refuse('invalid_value', param, 'must not contain a NUL or half a surrogate pair');
}

const idLimit = 256;

/** The longest name of a model that is stored; callers choose it. Characters. */
export const modelNameLimit = 256;

/** Whether an id that a host hands in is a text of sensible length that is stored and found again unchanged. */
export function isStorableId(id: unknown): id is string {
  return typeof id === 'string' && id.length > 0 && id.length <= idLimit && !unstorable.test(id);
}

/**
 * Makes sure that an id, which a host hands in, is a text that is stored and found again unchanged, and no query operator.
 * @throws GatewayError `invalid_value`
 */
export function checkStorableId(param: string, id: unknown): asserts id is string {
  if (isStorableId(id)) return;
  refuse('invalid_value', param, `must be a string of 1 to ${idLimit} characters`);
}

/** The same for the id of a user. @throws GatewayError `invalid_value` */
export function checkUserId(userId: unknown): asserts userId is string {
  checkStorableId('userId', userId);
}
