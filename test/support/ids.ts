import { randomBytes } from 'node:crypto';

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';

/** An id as the gateway makes them: prefix, 10 characters of time, 16 random ones; it sorts by time. */
export function newId(prefix: string, now: number): string {
  const time = Array.from({ length: 10 }, (_, i) => alphabet[Math.floor(now / 32 ** (9 - i)) % 32]);
  const random = Array.from(randomBytes(16), (byte) => alphabet[byte & 31]);
  return `${prefix}_${time.join('')}${random.join('')}`;
}
