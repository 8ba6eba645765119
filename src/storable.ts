import { refuse } from './errors.ts';

/** Whether a text is stored and found again unchanged: a NUL ends some of them, and half a surrogate pair has no UTF-8 form. */
export function isStorable(text: string): boolean {
  return !/[\0\p{Surrogate}]/u.test(text);
}

/** @throws GatewayError `invalid_value` unless the text is stored and found again unchanged */
export function checkStorable(param: string, text: string): void {
  if (!isStorable(text)) refuse('invalid_value', param, 'must not contain a NUL or half a surrogate pair');
}
