import { ApiError } from '../api/error.ts';
import type { EventType } from '../api/types.ts';

/** What is sent as a type's data unless it is edited: its example, with the reader's own account. */
export function exampleText(types: readonly EventType[], type: string | undefined, userId: string): string {
  const example = types.find((one) => one.type === type)?.example;
  if (!example) return '';
  return JSON.stringify('user_id' in example ? { ...example, user_id: userId } : example, null, 2);
}

/** @throws ApiError for the field where the text is no JSON object */
export function parseData(text: string): Record<string, unknown> {
  try {
    const data: unknown = JSON.parse(text);
    if (typeof data === 'object' && data !== null && !Array.isArray(data)) return data as Record<string, unknown>;
  } catch {
    // said below
  }
  throw new ApiError('data: must be a JSON object', { status: 0, code: 'invalid_json', param: 'data' });
}
