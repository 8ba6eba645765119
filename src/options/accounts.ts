import {
  amount,
  type Check,
  duration,
  isObject,
  jsonObject,
  listOf,
  objectOf,
  oneOf,
  readAs,
  refuseOption,
  wholeNumber,
  yesOrNo,
} from './kinds.ts';
import type { StoredUsage, ToolCounts } from './model-hooks.ts';
import type { Principal } from './principal.ts';

/** What may be asked for in a minute of the clock; what is left out is not limited. */
export interface RateLimits {
  /** Model calls. @default no limit */
  readonly requestsPerMinute?: number;
  /** Input and output tokens together. A call passes as long as any are left, and may use more than are left. @default no limit */
  readonly tokensPerMinute?: number;
}

/** The same limits for everybody, or a synchronous function; `undefined` is no limit. */
export type RateLimitsFor = RateLimits | ((principal: Principal) => RateLimits | undefined);

/** How much model calls may ask for. Durations are milliseconds. */
export interface LimitOptions {
  /** For each API key. It has no effect on principals without `keyId`. @default no limit */
  readonly perKey?: RateLimitsFor;
  /** For each account, whatever keys it uses. @default no limit */
  readonly perUser?: RateLimitsFor;
  /**
   * Whether all processes on this database count together. Each decides alone, by what it has counted and what the others
   * reported at the last exchange, so that no call waits for the database. What the other processes let through in
   * between may exceed the limit. @default false
   */
  readonly shared?: boolean;
  /**
   * The shortest time between two exchanges of `shared` counts. It is at least a second while no call is refused, and processes that use or give
   * back as much as this one have together done so with less than a hundredth of what is left of each limit since the last. @default 200
   */
  readonly syncInterval?: number;
  /** How long refused calls of one key are summed up in one `rate_limit.exceeded`; aligned to 1970, UTC. @default 300_000 */
  readonly eventWindow?: number;
}

/** How much an account can use. An event tells it when it has used a part of that. */
export interface Quota {
  /** What is counted: tokens (input and output together), answered requests, or credits by the prices of the option `credits`. */
  readonly unit: 'tokens' | 'requests' | 'credits';
  /** In a day, UTC. @default no quota */
  readonly daily?: number;
  /** In a calendar month, UTC. @default no quota */
  readonly monthly?: number;
}

/** What `usage.threshold` is published by. */
export interface QuotaOptions {
  /** The same for every account, or a synchronous function of its user id; `undefined` is no quota. */
  readonly perUser: Quota | ((userId: string) => Quota | undefined);
  /** Percentages of the quota. When an account reaches one, `usage.threshold` is sent. @default [80, 100] */
  readonly thresholds?: readonly number[];
  /**
   * Whether calls are refused (429 `insufficient_quota`) once a quota is used up, or where they may use more than is left. What has been
   * counted decides, about a second after a call has ended, and what calls under way in this process may use: an account may exceed its
   * quota by what it uses in that second, and by its calls in other processes. Credits are exact. @default false
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
   * model. @default free
   */
  readonly toolPrices?: Readonly<Partial<Record<PricedTool, number>>>;
  /** Credits that every account begins with. @default 0 */
  readonly initialBalance?: number;
  /** `credits.low` is published when a balance falls below so many credits. @default 0 (never) */
  readonly lowThreshold?: number;
  /** How far below zero a call may take a balance, in credits. @default 0 */
  readonly overdraft?: number;
  /** Tokens that are reserved for an answer whose request names no limit (`max_tokens`). @default 1_000 */
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

const day = 86_400_000;
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
  'limits.syncInterval': { kind: wholeNumber(1, 60_000), default: 200 },
  'limits.eventWindow': {
    kind: duration(100, day),
    default: 300_000,
    variable: 'LIMIT_EVENT_WINDOW',
    meaning: 'How long refused calls of a key are collected into one rate_limit.exceeded event',
    example: '1m',
  },
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
  'quotas.thresholds': {
    kind: readAs(
      listOf(wholeNumber(1, 1_000), 20, 'at most 20 percentages such as 50,80,100, or none'),
      checkThresholds,
    ),
    default: [80, 100],
    variable: 'QUOTA_THRESHOLDS',
    meaning: 'Percentages of a quota at which usage.threshold is sent',
    example: '50,80,100',
  },
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
      'Turns on prepaid credits: the price of a million tokens (input, cachedInput, output, training, of audio audioInput, cachedAudioInput, audioOutput) or characters (character), of one image or of one second, and the part of it that a batch costs (batch), by model',
    byDefault: 'no credits are kept',
    example: '{"*":{"input":1,"output":4},"gpt-image-1":{"image":40}}',
  },
  'credits.storedPrices': {
    kind: readAs(jsonObject, checkStoredPrices),
    default: {},
    variable: 'STORED_PRICES',
    meaning:
      'Credits for what upstreams keep, by kind (file, container, skill, vector_store): of each object that is made (each), and of a megabyte that is sent up (megabyte)',
    byDefault: 'free',
    example: '{"file":{"megabyte":0.1},"container":{"each":3}}',
  },
  'credits.toolPrices': {
    kind: readAs(jsonObject, checkToolPrices),
    default: {},
    variable: 'TOOL_PRICES',
    meaning: 'Credits for one call of a tool that providers run themselves (web_search, file_search, code_interpreter)',
    byDefault: 'free',
    example: '{"web_search":0.01,"file_search":0.0025,"code_interpreter":0.03}',
  },
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
