import { GatewayError } from '../../errors.ts';

/** Half of a UTF-16 pair: it has no UTF-8 form, so it would be stored as another character. */
const loneSurrogate = /\p{Surrogate}/u;

/** Keys with a meaning of their own in JavaScript objects; no operation has them. */
const reservedKeys: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype']);

function checkText(text: string, path: string): void {
  const param = path === '' ? {} : { param: path };
  const field = path === '' ? 'The body' : `${path}:`;
  if (text.includes('\0')) throw new GatewayError('invalid_value', `${field} must not have a NUL character`, param);
  if (loneSurrogate.test(text)) {
    throw new GatewayError('invalid_encoding', `${field} has half a surrogate pair, which is no character`, param);
  }
}

function checkValue(value: unknown, path: string): void {
  if (typeof value === 'string') checkText(value, path);
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    value.forEach((item, i) => {
      checkValue(item, `${path}[${i}]`);
    });
    return;
  }
  for (const [key, child] of Object.entries(value)) {
    const childPath = path === '' ? key : `${path}.${key}`;
    if (reservedKeys.has(key)) {
      throw new GatewayError('unknown_parameter', `${childPath}: is not a parameter of this operation`, {
        param: childPath,
      });
    }
    checkText(key, path);
    checkValue(child, childPath);
  }
}

/**
 * Refuses what cannot be stored, or would be read back differently. Relayed bodies are not stored and need no such check.
 * @param value what JSON has parsed to, nested 100 levels at most; `undefined` where there is none
 * @throws GatewayError naming the field: `unknown_parameter` for `__proto__` and its like, `invalid_value` for a NUL,
 * `invalid_encoding` for half a surrogate pair
 */
export function checkStorableBody(value: unknown): void {
  checkValue(value, '');
}
