import { refuse } from '../errors.ts';
import { checkStorable } from '../ids.ts';

/** An owner's own notes on a webhook. The gateway stores and returns them. */
export type Metadata = Readonly<Record<string, string>>;

const descriptionLimit = 500;
/** As OpenAI's metadata. */
const limits = { pairs: 16, key: 64, value: 512 } as const;

/** Counts characters, as JSON schemas do. */
function isLonger(text: string, limit: number): boolean {
  return text.length > 2 * limit || [...text].length > limit;
}

/**
 * Checks a description. `null` if it is empty.
 * @throws GatewayError `invalid_type` or `invalid_value`
 */
export function storedDescription(description: string | null): string | null {
  if (description === null || description === '') return null;
  if (typeof description !== 'string') refuse('invalid_type', 'description', 'must be a string');
  if (isLonger(description, descriptionLimit)) {
    refuse('invalid_value', 'description', `must have at most ${descriptionLimit} characters`);
  }
  checkStorable('description', description);
  return description;
}

/**
 * Checks metadata, and returns it as it is stored: as JSON, because a key may be anything, dots and `$` too. `null` if it is empty.
 * @throws GatewayError `invalid_type` or `invalid_value`, naming the key
 */
export function storedMetadata(metadata: Metadata | null): string | null {
  if (metadata === null) return null;
  if (typeof metadata !== 'object' || Array.isArray(metadata)) {
    refuse('invalid_type', 'metadata', 'must be an object of strings');
  }
  const pairs = Object.entries(metadata);
  if (pairs.length === 0) return null;
  if (pairs.length > limits.pairs) refuse('invalid_value', 'metadata', `must have at most ${limits.pairs} pairs`);
  for (const [key, value] of pairs) {
    if (key === '' || isLonger(key, limits.key)) {
      refuse('invalid_value', 'metadata', `a key must have 1 to ${limits.key} characters`);
    }
    checkStorable('metadata', key);
    const param = `metadata.${key}`;
    if (typeof value !== 'string') refuse('invalid_type', param, 'must be a string');
    if (isLonger(value, limits.value)) refuse('invalid_value', param, `must have at most ${limits.value} characters`);
    checkStorable(param, value);
  }
  return JSON.stringify(Object.fromEntries(pairs));
}
