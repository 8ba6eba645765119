import { isExactNumber, isNumber } from '../../../http/json/exact-number.ts';
import { ApiError } from './error.ts';

/**
 * Reads a number, written as in JSON.
 * @param param the field that it is for
 * @throws ApiError for what is no number, and for a number that JSON would change: the gateway would get it changed, and could not refuse it
 */
export function exactNumber(text: string, param: string): number {
  if (isExactNumber(text)) return Number(text);
  if (!isNumber(text)) throw new ApiError(`${param}: must be a number`, { status: 0, code: 'invalid_type', param });
  const message = `${param}: ${text} has more digits than JSON numbers keep, so it would change`;
  throw new ApiError(message, { status: 0, code: 'number_not_exact', param });
}
