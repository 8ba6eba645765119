import { hash, randomBytes } from 'node:crypto';

/** `emg_`, the 26 characters of the key's id, `_`, and 256 random bits in base64url. */
const form = /^emg_([0-9a-z]{26})_[A-Za-z0-9_-]{43}$/;
const length = 'emg_'.length + 26 + '_'.length + 43;

/** The text of a new key with this id. Only its owner has it: it is not stored. */
export function newKeyText(id: string): string {
  return `emg_${id.slice('key_'.length)}_${randomBytes(32).toString('base64url')}`;
}

/** The id in a key text; `null` if it is no key text. */
export function keyIdIn(token: string): string | null {
  if (typeof token !== 'string' || token.length !== length) return null;
  const id = form.exec(token)?.[1];
  return id === undefined ? null : `key_${id}`;
}

/** SHA-256 of the whole text. */
export function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer');
}
