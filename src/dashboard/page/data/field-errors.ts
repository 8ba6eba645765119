import type { ApiError } from '../api/error.ts';

/** What an error says about one field of a form, without the field's name before it. */
export function errorOf(error: ApiError | undefined, field: string): string | undefined {
  if (!error?.param || error.param.split(/[.[]/, 1)[0] !== field) return undefined;
  const text = error.message.replace(new RegExp(`^${field}[^:\\s]*: `), '');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The error, when it is about none of these fields. */
export function otherError(error: ApiError | undefined, fields: readonly string[]): ApiError | undefined {
  return error && !fields.some((field) => errorOf(error, field)) ? error : undefined;
}
