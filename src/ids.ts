import { createHmac, randomBytes } from 'node:crypto';

/** What an id names: a webhook, an event, a delivery, an API key, a request. */
export type IdPrefix = 'wh' | 'evt' | 'dlv' | 'key' | 'req';

/** Crockford's base 32 in lower case: sorts as it counts, has no look-alikes. */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const timeLength = 10;
const tailLength = 16;

function encodeTime(ms: number): string {
  let rest = ms;
  let text = '';
  for (let i = 0; i < timeLength; i += 1) {
    text = alphabet[rest % 32] + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

function encodeTail(bytes: Uint8Array): string {
  let text = '';
  for (let i = 0; i < tailLength; i += 1) text += alphabet[(bytes[i] as number) & 31];
  return text;
}

/**
 * A new id: prefix, 10 characters of time (ms), 16 random ones (80 bits).
 * Sorts by time, cannot be guessed, safe in a URL.
 */
export function newId(prefix: IdPrefix, now: number): string {
  return `${prefix}_${encodeTime(now)}${encodeTail(randomBytes(tailLength))}`;
}

/**
 * The same id whenever it is asked for again: the time, then 80 bits of an HMAC-SHA256 over the parts.
 * Makes doing a thing twice do nothing the second time.
 */
export function derivedId(prefix: IdPrefix, now: number, key: Uint8Array, ...parts: string[]): string {
  const mac = createHmac('sha256', key).update(parts.join('\n')).digest();
  return `${prefix}_${encodeTime(now)}${encodeTail(mac)}`;
}

/** Whether `text` has the form of an id with this prefix. */
export function isId(prefix: IdPrefix, text: string): boolean {
  return text.length === prefix.length + 27 && text.startsWith(`${prefix}_`) && /^[0-9a-z]{26}$/.test(text.slice(-26));
}
