import { accountRows } from '../options/accounts.ts';
import type { CreditOptions, ModelCall, RequestedOutput } from '../options/options.ts';
import { type Charged, costOf, longWorks } from './price.ts';

/** What decides the most that a call can cost. */
export interface Requested {
  readonly call: Pick<ModelCall, 'endpoint' | 'model'>;
  /** Estimated. */
  readonly inputTokens: number;
  readonly output: RequestedOutput;
}

/** Options by which calls are priced before they are made. */
export type MostCostOptions = Pick<CreditOptions, 'prices' | 'storedPrices'> &
  Required<Pick<CreditOptions, 'expectedOutputTokens'>>;

/** By the option `credits`. */
export function mostCostOptions(credits: CreditOptions = { prices: {} }): MostCostOptions {
  const { expectedOutputTokens = accountRows['credits.expectedOutputTokens'].default } = credits;
  return { ...credits, expectedOutputTokens };
}

/** They need no credits, and use no tokens. */
const freeEndpoints: ReadonlySet<string> = new Set([
  '/moderations',
  '/responses/input_tokens',
  '/messages/count_tokens',
]);

/** Their answers have no tokens. */
const withoutOutput: ReadonlySet<string> = new Set(['/embeddings', '/rerank']);

/** The most tokens that a call can have as output. */
function mostOutputTokens({ expectedOutputTokens }: MostCostOptions, { call, output }: Requested): number {
  const { choices, maxTokens = expectedOutputTokens, furtherTokens = 0 } = output;
  return withoutOutput.has(call.endpoint) ? 0 : choices * maxTokens + furtherTokens;
}

/** More than any call has, so that sums of many stay exact. */
const maxTokensPerCall = 1_000_000_000_000_000;

/** The most tokens that a call can use by its own words, input and output together. */
export function mostTokens(options: MostCostOptions, requested: Requested): number {
  if (freeEndpoints.has(requested.call.endpoint)) return 0;
  return Math.min(maxTokensPerCall, requested.inputTokens + mostOutputTokens(options, requested));
}

/** The most that a call can cost by its own words: of what it leaves open, output is expected and all else nothing. Micro-credits. */
export function mostCost(options: MostCostOptions, requested: Requested): number {
  const { call, inputTokens, output } = requested;
  const { endpoint, model } = call;
  if (freeEndpoints.has(endpoint)) return 0;
  const { choices, seconds = 0, characters = 0, units, stored, tools, writesCache } = output;
  // a host's own endpoint has units, whatever its path begins with
  const images = units === undefined && endpoint.startsWith('/images') ? choices : 0;
  const outputTokens = mostOutputTokens(options, requested);
  const used = {
    ...{ inputTokens, cachedInputTokens: 0, outputTokens, images, seconds, characters, units, stored },
    estimated: true,
  };
  const costWith = (written: Pick<Charged, 'cacheWriteTokens' | 'cacheWriteHourTokens'>) =>
    costOf(options, { model, endpoint, ...used, ...tools, ...written });
  const cost = costWith({});
  if (!writesCache) return cost;
  const written = { cacheWriteTokens: inputTokens };
  const hours = writesCache === '1h' ? costWith({ ...written, cacheWriteHourTokens: inputTokens }) : 0;
  return Math.max(cost, costWith(written), hours);
}

/** The field with a call's input, by endpoint. */
const inputFields: Readonly<Record<string, string>> = {
  '/chat/completions': 'messages',
  '/completions': 'prompt',
  '/responses': 'input',
  '/responses/compact': 'input',
  '/messages': 'messages',
  '/embeddings': 'input',
  '/rerank': 'documents',
  '/images/generations': 'prompt',
  '/images/edits': 'prompt',
  '/audio/speech': 'input',
  '/audio/transcriptions': 'file',
  '/audio/translations': 'file',
  '/batches': 'input_file_id',
  '/messages/batches': 'requests',
  '/fine_tuning/jobs': 'training_file',
  '/files': 'file',
};

/**
 * The field of a call that makes it cheapest if it is lowered; `undefined` where none does.
 * @param mostOf the most of what is to be lowered
 */
export function dearestField(mostOf: (requested: Requested) => number, requested: Requested): string | undefined {
  const { call, output } = requested;
  // all that it asks for is in a file
  if (longWorks.has(call.endpoint)) return inputFields[call.endpoint];
  const { choicesField, limitField } = output;
  const lowered: readonly (readonly [string | undefined, Requested])[] = [
    [choicesField, { ...requested, output: { ...output, choices: 1 } }],
    ['tools', { ...requested, output: { ...output, tools: undefined } }],
    [limitField, { ...requested, output: { ...output, maxTokens: 1 } }],
    [
      output.lengthField ?? inputFields[call.endpoint],
      { ...requested, inputTokens: 0, output: { ...output, seconds: 0, characters: 0, stored: undefined } },
    ],
  ];
  let least = mostOf(requested);
  let dearest: string | undefined;
  for (const [field, request] of lowered) {
    const cost = field === undefined ? least : mostOf(request);
    if (cost >= least) continue;
    least = cost;
    dearest = field;
  }
  return dearest;
}

/** What a caller does about such a field. */
export function howToLower(field: string): string {
  return `${field === 'content-length' ? 'send' : 'lower'} ${field}`;
}
