import { refuse } from '../errors.ts';
import { type PricedTool, toolCounts } from '../options/accounts.ts';
import type { CreditOptions, StoredUsage, ToolCounts, UsageRecord } from '../options/options.ts';

/** Micro-credits in a credit. Amounts are whole numbers of them, so that no sum is ever rounded. */
export const microCreditsPerCredit = 1_000_000;

/** @throws GatewayError `invalid_value` unless it is an amount, and small enough to be exact */
export function toMicro(param: string, credits: number): number {
  const amount = Math.round(credits * microCreditsPerCredit);
  if (typeof credits !== 'number' || !Number.isSafeInteger(amount) || amount < 0) {
    refuse('invalid_value', param, 'must be an amount of credits, 0 to 9,000,000,000');
  }
  return amount;
}

export function toCredits(amount: number): number {
  return amount / microCreditsPerCredit;
}

/** What a call is charged for. */
export type Charged = Pick<UsageRecord, 'inputTokens' | 'cachedInputTokens' | 'outputTokens' | 'images'> &
  // records of earlier versions have neither
  ToolCounts &
  Partial<
    Pick<
      UsageRecord,
      | 'imageModels'
      | 'cacheWriteTokens'
      | 'cacheWriteHourTokens'
      | 'inputAudioTokens'
      | 'cachedInputAudioTokens'
      | 'outputAudioTokens'
      | 'seconds'
      | 'characters'
      | 'units'
      | 'endpoint'
      | 'stored'
      | 'estimated'
    >
  > & {
    readonly model: string | null | undefined;
  };

/** The endpoints of batches in usage records. */
const batches: ReadonlySet<string | undefined> = new Set(['/batches', '/messages/batches']);
/** The endpoint of a fine-tuning job in usage records; its input tokens are those that it has trained. */
const trainings = '/fine_tuning/jobs';

/** What upstreams work on for long, by endpoint, and what errors call it. */
export const longWorks: ReadonlyMap<string, string> = new Map([
  ['/batches', 'batch'],
  ['/messages/batches', 'batch'],
  [trainings, 'fine-tuning job'],
]);

/** The most that one call can cost, so that sums of many stay exact. Micro-credits. */
const maxCostPerCall = 1_000_000_000 * microCreditsPerCredit;

type ModelPrice = NonNullable<CreditOptions['prices'][string]>;

/** What is charged for what. */
export type Prices = Pick<CreditOptions, 'prices' | 'storedPrices' | 'toolPrices'>;

/** What it costs that an upstream keeps something: its bytes and itself, rounded with the rest of a call. Micro-credits. */
function costOfStored({ storedPrices = {} }: Prices, { kind, made, uploadedBytes }: StoredUsage): number {
  const { each = 0, megabyte = 0 } = storedPrices[kind] ?? {};
  // a credit for a megabyte is a micro-credit for a byte
  return made * each * microCreditsPerCredit + uploadedBytes * megabyte;
}

/** The price of a model, or of a call that names none. */
function priceOf({ prices }: Prices, model: string | null | undefined): ModelPrice {
  return (model != null && Object.hasOwn(prices, model) ? prices[model] : prices['*']) ?? {};
}

/** What calls of hosted tools cost, in micro-credits. They cost in a batch what they cost elsewhere. */
function costOfTools({ toolPrices = {} }: Prices, counts: ToolCounts): number {
  const tools = Object.entries(toolPrices) as [PricedTool, number][];
  return tools.reduce((sum, [tool, price]) => sum + (counts[toolCounts[tool]] ?? 0) * price * microCreditsPerCredit, 0);
}

/** What an image costs, in micro-credits: where a hosted tool makes it by one of several models, what the dearest of them takes. */
function costOfImage(all: Prices, { model, imageModels, endpoint }: Charged): number {
  const each = (imageModels ?? [model]).map((name) => {
    const { image = 0, batch = 1 } = priceOf(all, name);
    return image * (batches.has(endpoint) ? batch : 1);
  });
  return Math.max(0, ...each) * microCreditsPerCredit;
}

/** The endpoints whose tokens may be audio. An estimate does not tell which are. */
const audioEndpoints = /^\/(?:chat\/completions|realtime|audio)/;

/**
 * What tokens cost that are written into a provider's cache. Anthropic charges twice the price of input where it keeps them for an hour, of every model, and
 * 1.25 times that where it keeps them for five minutes (platform.claude.com/docs/en/build-with-claude/prompt-caching, "Pricing").
 */
function costOfCacheWrites({ input = 0, cacheWrite }: ModelPrice, charged: Charged): number {
  const { cacheWriteTokens = 0, cacheWriteHourTokens = 0 } = charged;
  if (cacheWrite === undefined) return cacheWriteTokens * input;
  return (cacheWriteTokens - cacheWriteHourTokens) * cacheWrite + cacheWriteHourTokens * 2 * input;
}

/**
 * What the tokens of a call cost, in micro-credits: text and audio by their prices, and where nobody tells them apart, all at the higher of the two.
 */
function costOfTokens(price: ModelPrice, charged: Charged): number {
  const { inputTokens, cachedInputTokens, outputTokens, endpoint = '', estimated = false } = charged;
  const { inputAudioTokens = 0, cachedInputAudioTokens = 0, outputAudioTokens = 0 } = charged;
  const { input = 0, cachedInput = input, output = 0 } = price;
  const { cacheWriteTokens = 0 } = charged;
  const { audioInput = input, cachedAudioInput = price.audioInput ?? cachedInput, audioOutput = output } = price;
  if (estimated && audioEndpoints.test(endpoint)) {
    return inputTokens * Math.max(input, audioInput) + outputTokens * Math.max(output, audioOutput);
  }
  const textTokens = inputTokens - cachedInputTokens - cacheWriteTokens - (inputAudioTokens - cachedInputAudioTokens);
  return (
    textTokens * input +
    costOfCacheWrites(price, charged) +
    (cachedInputTokens - cachedInputAudioTokens) * cachedInput +
    (inputAudioTokens - cachedInputAudioTokens) * audioInput +
    cachedInputAudioTokens * cachedAudioInput +
    (outputTokens - outputAudioTokens) * output +
    outputAudioTokens * audioOutput
  );
}

/**
 * What a call costs, in whole micro-credits: a credit for a million tokens is a micro-credit for one. It is charged by unit, by token
 * or by length, never by two of them: by units if its endpoint has some, and its model a price for them. Characters are always known, and are charged
 * if tokens cost nothing. If there are both tokens and seconds, both are estimates, and the higher one is charged. The cost is rounded once,
 * and never to 0.
 */
export function costOf(all: Prices, charged: Charged): number {
  const { model, inputTokens, images, seconds = 0, characters = 0, units, endpoint, stored } = charged;
  const price = priceOf(all, model);
  const { input = 0, second = 0, character = 0, unit, batch = 1, training = input } = price;
  const ofTokens = costOfTokens(price, charged);
  const ofSeconds = seconds * second * microCreditsPerCredit;
  const byLength = Math.max(ofTokens, ofSeconds) || characters * character;
  const ofText = unit === undefined || units === undefined ? byLength : units * unit * microCreditsPerCredit;
  const ofModel = ofText * (batches.has(endpoint) ? batch : 1) + images * costOfImage(all, charged);
  const ofCall = endpoint === trainings ? inputTokens * training : ofModel + costOfTools(all, charged);
  const cost = stored ? ofCall + costOfStored(all, stored) : ofCall;
  return cost > 0 ? Math.min(maxCostPerCall, Math.max(1, Math.round(cost))) : 0;
}
