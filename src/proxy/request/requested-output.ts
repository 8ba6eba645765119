import type { ByteRange, FieldRange } from '../../http/operation.ts';
import type { RequestedOutput } from '../../options/options.ts';
import { shortValue } from './short-value.ts';

/** The whole number that a field has; 0 where it has none. */
function wholeAt(bytes: Buffer, span: ByteRange | undefined): number {
  const value = shortValue(bytes, span);
  return Number.isSafeInteger(value) ? (value as number) : 0;
}

/** More than any request needs: a bound that keeps sums exact. */
const choicesLimit = 1_000_000_000;

/** How many prompts a text completion has: a list of texts, or of lists of tokens, is answered one by one. */
function promptsIn(prompt: unknown): number {
  if (!Array.isArray(prompt)) return 1;
  return typeof prompt[0] === 'string' || Array.isArray(prompt[0]) ? prompt.length : 1;
}

/**
 * Reads what a JSON body asks for. Of two fields that say the same the larger one counts: which of them an upstream follows
 * is its own affair. Pure.
 */
export function requestedOutput(
  bytes: Buffer,
  fields: ReadonlyMap<string, ByteRange>,
  prompt: unknown,
): RequestedOutput {
  const at = (name: string) => wholeAt(bytes, fields.get(name));
  const answers = Math.max(1, at('n'), at('best_of'));
  const maxTokens = Math.max(at('max_tokens'), at('max_completion_tokens'), at('max_output_tokens'));
  const choices = Math.min(choicesLimit, answers * promptsIn(prompt));
  return { choices, maxTokens: maxTokens > 0 ? maxTokens : undefined };
}

const openBracket = 0x5b;

/** How many tokens a prompt has that is given as numbers; 0 for any other. Pure. */
export function listedTokens(bytes: Buffer, fields: ReadonlyMap<string, FieldRange>): number {
  const span = fields.get('prompt') ?? fields.get('input');
  return span && bytes[span.start] === openBracket ? span.numbers : 0;
}
