import { searchedKey } from '../../http/json/search.ts';
import { ValueReader } from './value-reader.ts';

/** What an upstream says a call has used. */
export interface ReportedUsage {
  /** Cached ones included. */
  readonly inputTokens: number;
  /** The input tokens that the provider read from its cache. */
  readonly cachedInputTokens: number;
  /** Reasoning included. */
  readonly outputTokens: number;
  /** The output tokens that were reasoning; absent where there were none. */
  readonly reasoningTokens?: number;
  /** Of audio, where it counts seconds and no tokens. */
  readonly seconds?: number;
}

/** More tokens than any model reads or writes in one call: a larger count is an upstream's error. */
const mostTokens = 100_000_000;

/** @returns `undefined` when there is none; `NaN` for anything that is not a count */
function countIn(usage: Readonly<Record<string, unknown>>, ...names: readonly string[]): number | undefined {
  const value = names.map((name) => usage[name]).find((found) => found !== undefined && found !== null);
  if (value === undefined) return undefined;
  const isCount = Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= mostTokens;
  // + 0 turns -0 into 0
  return isCount ? (value as number) + 0 : Number.NaN;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A count among the details of a usage; 0 where there is none. */
function detailIn(details: unknown, name: string): number {
  return (isObject(details) && countIn(details, name)) || 0;
}

/** More seconds than any recording of one call has: 11 days. */
const mostSeconds = 1_000_000;

function durationFrom({ seconds }: Readonly<Record<string, unknown>>): ReportedUsage | undefined {
  if (typeof seconds !== 'number' || !(seconds >= 0 && seconds <= mostSeconds)) return undefined;
  // a thousandth is exact enough, and keeps sums short
  return { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, seconds: Math.round(seconds * 1_000) / 1_000 };
}

/**
 * Reads a `usage` object, under the names of chat completions, of images, or of audio that is counted by its `seconds`. Counts must be whole numbers, 0 to 100 million;
 * otherwise the whole object is ignored, and the usage is estimated. Where the total is more than input and output, as it is
 * where a provider leaves reasoning out of the output, the difference counts as output. Pure.
 */
export function usageFrom(usage: unknown): ReportedUsage | undefined {
  if (!isObject(usage)) return undefined;
  if (usage.type === 'duration') return durationFrom(usage);
  const inputTokens = countIn(usage, 'prompt_tokens', 'input_tokens');
  const total = countIn(usage, 'total_tokens');
  const beyondInput = total === undefined || inputTokens === undefined ? undefined : Math.max(0, total - inputTokens);
  const reportedOutput = countIn(usage, 'completion_tokens', 'output_tokens') ?? beyondInput;
  if (inputTokens === undefined || reportedOutput === undefined) return undefined;
  const outputTokens = Math.max(reportedOutput, beyondInput ?? 0);
  if (Number.isNaN(inputTokens) || Number.isNaN(outputTokens)) return undefined;
  const cached = detailIn(usage.prompt_tokens_details ?? usage.input_tokens_details, 'cached_tokens');
  const reasoning = detailIn(usage.completion_tokens_details ?? usage.output_tokens_details, 'reasoning_tokens');
  return {
    inputTokens,
    cachedInputTokens: Math.min(inputTokens, cached),
    outputTokens,
    ...(reasoning > 0 && { reasoningTokens: Math.min(outputTokens, reasoning) }),
  };
}

/** The most that is held of an incomplete usage object. Bytes. */
const keepLimit = 16 * 1024;

const usageKey = searchedKey('usage', '{');

const sizeOf = ({ inputTokens, outputTokens, seconds = 0 }: ReportedUsage): number =>
  inputTokens + outputTokens + seconds;

/**
 * Reads the `usage` out of an answer's bytes. The largest one counts: repeated reports in a stream only grow, and another object
 * of that name must not replace the real one by a smaller one.
 */
export class UsageReader {
  /** The usage; `undefined` until a valid one has come. */
  usage: ReportedUsage | undefined;
  readonly #reader = new ValueReader(usageKey, keepLimit, (value) => {
    const usage = usageFrom(value);
    if (usage && (!this.usage || sizeOf(usage) >= sizeOf(this.usage))) this.usage = usage;
  });

  read(chunk: Buffer): void {
    this.#reader.read(chunk);
  }
}
