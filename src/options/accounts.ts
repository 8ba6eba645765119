import { fixed } from './fixed.ts';
import {
  amount,
  type Check,
  isObject,
  jsonObject,
  objectOf,
  oneOf,
  readAs,
  refuseOption,
  unchecked,
  wholeNumber,
  yesOrNo,
} from './kinds.ts';
import type { StoredUsage, ToolCounts } from './model-hooks.ts';
import type { Principal } from './principal.ts';

/** What may be asked for in a minute of the clock; what is left out is not limited. */
export interface RateLimits {
  /** Model calls. @default no limit @when nobody may take more than a share */
  readonly requestsPerMinute?: number;
  /** Input and output tokens together. A call passes as long as any are left, and may use more than are left. @default no limit @when your upstreams limit or charge tokens */
  readonly tokensPerMinute?: number;
}

/** The same limits for everybody, or a synchronous function; `undefined` is no limit. */
export type RateLimitsFor = RateLimits | ((principal: Principal) => RateLimits | undefined);

/** What accounts may have and ask for, and what a process takes at once. Sizes are bytes. */
export interface LimitOptions {
  /** How much model calls may ask for, for each API key. It has no effect on principals without `keyId`. @default no limit */
  readonly perKey?: RateLimitsFor;
  /** How much model calls may ask for, for each account, whatever keys it uses. @default no limit */
  readonly perUser?: RateLimitsFor;
  /**
   * Whether all processes on this database count together for `perKey` and `perUser`. Each decides alone, by what it has counted and what the
   * others reported at the last exchange, so that no call waits for the database. What the other processes let through in
   * between may exceed the limit. @default false @when several processes serve model calls
   */
  readonly shared?: boolean;
  /** The most webhooks that one account may have. @default 50 @when a customer needs more, or a plan has fewer */
  readonly webhooks?: number;
  /** The most API keys that one account may have. Revoked and expired ones do not count. @default 100 @when a customer gives a key to each user of its own */
  readonly apiKeys?: number;
  /** The most files an account may have at once. 1 to 1_000_000. @default 10_000 @when a customer works with more, or you pay for what they keep */
  readonly files?: number;
  /** The largest file, or part of an upload. Files go up as they come, and take no `bodyMemory`. @default 536_870_912 (512 MiB) @when your upstreams take more or less */
  readonly fileBytes?: number;
  /** The largest body of a model call. @default 33_554_432 (32 MiB) @when calls carry larger images or recordings, or memory is scarce */
  readonly modelBodyBytes?: number;
  /**
   * Bytes that this process holds at once: of request bodies, decompressed, that are still arriving or are kept until an upstream answers, and of
   * WebSockets, messages that have not come whole and what waits for a side that reads slowly. One account may hold as much as is free.
   * At least 64 MiB, and twice `modelBodyBytes`.
   * @default 268_435_456 (256 MiB), or that least where it is more
   * @when the machine has much more or less memory
   */
  readonly bodyMemory?: number;
  /**
   * Requests that change something (webhooks, API keys, resends, recoveries, test events, top-ups) that one account may make per minute,
   * in each process. Beyond it: 429. @default 300 @when a customer manages thousands of webhooks by program
   */
  readonly writesPerMinute?: number;
  /** How often one account may read (every GET: lists, single objects, statistics) in a minute, in each process. Beyond it: 429. @default 6_000 @when many people of one account use the dashboard, or the database is small */
  readonly readsPerMinute?: number;
}

/** The least `limits.bodyMemory`: an account alone may fill half of it, with a body or with one message each way. Bytes. */
export function leastBodyMemory(
  { modelBodyBytes = 0 }: LimitOptions,
  messageBytes: number = fixed.socketMessageBytes,
): number {
  return Math.max(2 * modelBodyBytes, 4 * messageBytes);
}

/** How much an account can use. An event tells it when it has used a part of that. */
export interface Quota {
  /** What is counted: tokens (input and output together), answered requests, or credits by the prices of the option `credits`. @when always */
  readonly unit: 'tokens' | 'requests' | 'credits';
  /** In a day, UTC. @default no quota @when accounts have so much a day */
  readonly daily?: number;
  /** In a calendar month, UTC. @default no quota @when accounts have so much a month */
  readonly monthly?: number;
}

/** What `usage.threshold` is published by. */
export interface QuotaOptions {
  /** The same for every account, or a synchronous function of its user id; `undefined` is no quota. */
  readonly perUser: Quota | ((userId: string) => Quota | undefined);
  /** Percentages of the quota. When an account reaches one, `usage.threshold` is sent. @default [80, 100] @when your customers want to know sooner, or more often */
  readonly thresholds?: readonly number[];
  /**
   * Whether calls are refused (429 `insufficient_quota`) once a quota is used up, or where they may use more than is left. What has been
   * counted decides, about a second after a call has ended, and what calls under way in this process may use: an account may exceed its
   * quota by what it uses in that second, and by its calls in other processes. Credits are exact. @default false @when a quota is a limit, and not only a notice
   */
  readonly enforce?: boolean;
}

/** @throws GatewayError `invalid_options` */
function checkThresholds(param: string, thresholds: unknown): void {
  const valid = (threshold: unknown) => typeof threshold === 'number' && Number.isFinite(threshold) && threshold > 0;
  if (Array.isArray(thresholds) && thresholds.length <= 20 && thresholds.every(valid)) return;
  refuseOption(param, 'must be a list of at most 20 percentages above 0');
}

/** @throws GatewayError `invalid_options` */
function checkQuotaOf(param: string, quota: unknown): void {
  if (Number.isSafeInteger(quota) && Number(quota) > 0) return;
  refuseOption(param, `must be a whole number, 1 or more, not ${String(quota)}`);
}

/** What a model costs, in credits. Tokens and characters are priced by the million. */
interface ModelPrice {
  /** A million tokens of input. @default 0 */
  readonly input?: number;
  /** A million tokens of input that the provider had in its cache. @default the price of input */
  readonly cachedInput?: number;
  /**
   * A million tokens of input that the provider wrote into its cache, where it counts them. With this price, those that it keeps for an hour cost twice
   * the price of input. @default the price of input
   */
  readonly cacheWrite?: number;
  /** A million tokens of output. @default 0 */
  readonly output?: number;
  /** A million tokens of input that are audio, where the upstream tells them apart. @default the price of input */
  readonly audioInput?: number;
  /** A million tokens of audio that the provider had in its cache. @default the price of audioInput, or without one that of cachedInput */
  readonly cachedAudioInput?: number;
  /** A million tokens of output that are audio, where the upstream tells them apart. @default the price of output */
  readonly audioOutput?: number;
  /** One image. @default 0 */
  readonly image?: number;
  /** One second of audio, where the upstream counts no tokens for it. @default 0 */
  readonly second?: number;
  /** A million characters of text that is spoken, where the upstream counts no tokens for it. @default 0 */
  readonly character?: number;
  /**
   * One unit of an endpoint of your own or of a rerank: a call, or what its answer counts, such as search units. With this price, tokens of these calls cost
   * nothing. @default they are charged by tokens
   */
  readonly unit?: number;
  /** The part of these prices that requests in a batch cost: 0.5 for half. @default 1 */
  readonly batch?: number;
  /** A million tokens that a fine-tuning job of this model has trained. @default the price of input */
  readonly training?: number;
}

/** What it costs to have upstreams keep objects of one kind, in credits. Nothing is charged for how long they keep them, nor for downloads. */
interface StoredPrice {
  /** Each object that is made. @default 0 */
  readonly each?: number;
  /** A megabyte (1,000,000 bytes) that is sent up, as the request's body has it. @default 0 */
  readonly megabyte?: number;
}

/** Prepaid credits: what calls cost, and when an event says that an account runs out of them. */
export interface CreditOptions {
  /** Prices by model, as callers name it. `'*'` is required: the price of every other model, and of calls that name none. */
  readonly prices: Readonly<Record<string, ModelPrice>>;
  /**
   * Prices of what upstreams keep, by kind: `file` (files, and uploads in parts), `container` (with the files that are sent to it), `skill` (with
   * its versions) and `vector_store`. @default free
   */
  readonly storedPrices?: Readonly<Partial<Record<StoredUsage['kind'], StoredPrice>>>;
  /**
   * The price of one call of a hosted tool: `web_search`, `file_search`, `code_interpreter`. What the tool `image_generation` makes costs the `image` of its
   * model. @default free @when your provider charges you for tools
   */
  readonly toolPrices?: Readonly<Partial<Record<PricedTool, number>>>;
  /** Credits that every account begins with. @default 0 @when new accounts may try it */
  readonly initialBalance?: number;
  /** `credits.low` is published when a balance falls below so many credits. @default 0 (never) @when your customers are told to top up */
  readonly lowThreshold?: number;
  /** How far below zero a call may take a balance, in credits. @default 0 @when no call may fail for a few credits */
  readonly overdraft?: number;
  /** Tokens that are reserved for an answer whose request names no limit (`max_tokens`). @default 1_000 @when answers are usually much longer or shorter */
  readonly expectedOutputTokens?: number;
}

/** The hosted tools that have a price, and where usage records count their calls. */
export const toolCounts = {
  web_search: 'webSearchCalls',
  file_search: 'fileSearchCalls',
  code_interpreter: 'codeInterpreterCalls',
} as const satisfies Record<string, keyof ToolCounts>;

export type PricedTool = keyof typeof toolCounts;

/** A larger number of credits is not exact in micro-credits. */
const maxCredits = 1_000_000_000;

const credits = amount(maxCredits).check;
const checkPrice = objectOf({
  input: credits,
  cachedInput: credits,
  output: credits,
  image: credits,
  second: credits,
  character: credits,
  batch: credits,
  training: credits,
  audioInput: credits,
  cachedAudioInput: credits,
  audioOutput: credits,
  cacheWrite: credits,
  unit: credits,
} satisfies Record<keyof ModelPrice, Check>);
const ofStored = objectOf({ each: credits, megabyte: credits } satisfies Record<keyof StoredPrice, Check>);
const checkStoredPrices = objectOf({
  file: ofStored,
  container: ofStored,
  skill: ofStored,
  vector_store: ofStored,
} satisfies Record<StoredUsage['kind'], Check>);

const checkToolPrices = objectOf({
  web_search: credits,
  file_search: credits,
  code_interpreter: credits,
} satisfies Record<PricedTool, Check>);

/** @throws GatewayError `invalid_options`, naming the model and its price */
function checkPrices(param: string, given: unknown): void {
  if (!isObject(given)) refuseOption(param, 'must be an object');
  if (!Object.hasOwn(given, '*')) refuseOption(param, "must have '*', the price of models not named there");
  for (const [model, price] of Object.entries(given)) checkPrice(`${param}['${model}']`, price);
}

const mebibyte = 1024 ** 2;
const billion = 1_000_000_000;
/** Calls or tokens in a minute. */
const perMinute = readAs(wholeNumber(0, billion), wholeNumber(0, Number.MAX_SAFE_INTEGER).check);
const quota = readAs(wholeNumber(1, Number.MAX_SAFE_INTEGER), checkQuotaOf);

/** What limits, quotas and credits are made of: rows of the table of options. */
export const accountRows = {
  'limits.perKey.requestsPerMinute': {
    kind: perMinute,
    variable: 'KEY_REQUESTS_PER_MINUTE',
    meaning: 'Model calls that one API key may make per minute',
    byDefault: 'no limit',
    example: '60',
  },
  'limits.perKey.tokensPerMinute': {
    kind: perMinute,
    variable: 'KEY_TOKENS_PER_MINUTE',
    meaning: 'Tokens, input and output together, that one API key may use per minute',
    byDefault: 'no limit',
    example: '100000',
  },
  'limits.perUser.requestsPerMinute': {
    kind: perMinute,
    variable: 'USER_REQUESTS_PER_MINUTE',
    meaning: 'Model calls that one account may make per minute with all its keys',
    byDefault: 'no limit',
    example: '600',
  },
  'limits.perUser.tokensPerMinute': {
    kind: perMinute,
    variable: 'USER_TOKENS_PER_MINUTE',
    meaning: 'Tokens that one account may use per minute',
    byDefault: 'no limit',
    example: '1000000',
  },
  'limits.shared': {
    kind: yesOrNo,
    default: false,
    variable: 'SHARED_LIMITS',
    meaning: 'Whether all gateways on one MongoDB share the counts of these limits',
    example: 'true',
  },
  'limits.webhooks': {
    kind: wholeNumber(1, 100_000),
    default: 50,
    variable: 'MAX_WEBHOOKS',
    meaning: 'Maximum number of webhooks per account',
    example: '10',
  },
  'limits.apiKeys': { kind: wholeNumber(1, 100_000), default: 100 },
  'limits.files': { kind: wholeNumber(1, 1_000_000), default: 10_000 },
  'limits.fileBytes': { kind: wholeNumber(1, 16 * 1024 * mebibyte), default: 512 * mebibyte },
  'limits.modelBodyBytes': { kind: wholeNumber(1, 1024 * mebibyte), default: 32 * mebibyte },
  'limits.bodyMemory': {
    // what an option may be follows from others
    kind: readAs(wholeNumber(64 * mebibyte, 1024 ** 4), unchecked),
    default: ({ limits }: { readonly limits?: LimitOptions }) =>
      Math.max(256 * mebibyte, leastBodyMemory(limits ?? {})),
    variable: 'BODY_MEMORY',
    meaning:
      'Maximum bytes of request bodies and of unfinished or waiting messages of WebSockets held at once; above it a request gets 429 or 503, and a WebSocket is closed with 1013',
    byDefault: '268435456 (256 MiB)',
    example: '1073741824',
  },
  'limits.writesPerMinute': { kind: wholeNumber(1, 1_000_000), default: 300 },
  'limits.readsPerMinute': { kind: wholeNumber(1, 1_000_000), default: 6_000 },
  'quotas.perUser.unit': {
    kind: oneOf('tokens', 'requests', 'credits'),
    required: true,
    variable: 'QUOTA_UNIT',
    meaning: 'What DAILY_QUOTA and MONTHLY_QUOTA count; credits need CREDIT_PRICES',
    byDefault: 'tokens',
    example: 'requests',
  },
  'quotas.perUser.daily': {
    kind: quota,
    variable: 'DAILY_QUOTA',
    meaning: 'What an account may use per day (UTC); usage.threshold events report it, no call is refused',
    byDefault: 'no quota',
    example: '200000',
  },
  'quotas.perUser.monthly': {
    kind: quota,
    variable: 'MONTHLY_QUOTA',
    meaning: 'What an account may use per calendar month (UTC)',
    byDefault: 'no quota',
    example: '5000000',
  },
  'quotas.thresholds': { check: checkThresholds, default: [80, 100] },
  'quotas.enforce': {
    kind: yesOrNo,
    default: false,
    variable: 'QUOTA_ENFORCE',
    meaning: 'Whether calls of an account are refused (429 insufficient_quota) that its quota has no room for',
    example: 'true',
  },
  'credits.prices': {
    kind: readAs(jsonObject, checkPrices),
    required: true,
    variable: 'CREDIT_PRICES',
    meaning:
      'Turns on prepaid credits: the price of a million tokens (input, cachedInput, cacheWrite, output, training, of audio audioInput, cachedAudioInput, audioOutput) or characters (character), of one image, of one second or of one unit (unit), and the part of it that a batch costs (batch), by model',
    byDefault: 'no credits are kept',
    example: '{"*":{"input":1,"output":4},"gpt-image-1":{"image":40}}',
  },
  'credits.storedPrices': { check: checkStoredPrices, default: {} },
  'credits.toolPrices': { check: checkToolPrices, default: {} },
  'credits.initialBalance': {
    kind: amount(maxCredits),
    default: 0,
    variable: 'INITIAL_CREDITS',
    meaning: 'Credits that every account starts with',
    example: '5',
  },
  'credits.lowThreshold': {
    kind: amount(maxCredits),
    default: 0,
    variable: 'CREDIT_LOW_THRESHOLD',
    meaning: 'credits.low is sent when a balance falls below this many credits',
    byDefault: '0, which is never',
    example: '10',
  },
  'credits.overdraft': {
    kind: amount(maxCredits),
    default: 0,
    variable: 'CREDIT_OVERDRAFT',
    meaning: 'Credits by which a call may take a balance below zero',
    example: '5',
  },
  'credits.expectedOutputTokens': { kind: amount(maxCredits), default: 1_000 },
} as const;
