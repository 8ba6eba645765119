import { checkKeys, refuseOption } from '../checks.ts';

/** What a model costs, in credits. Tokens and characters are priced by the million. */
interface ModelPrice {
  /** A million tokens of input. @default 0 */
  readonly input?: number;
  /** A million tokens of input that the provider had in its cache. @default the price of input */
  readonly cachedInput?: number;
  /** A million tokens of output. @default 0 */
  readonly output?: number;
  /** One image. @default 0 */
  readonly image?: number;
  /** One second of audio, where the upstream counts no tokens for it. @default 0 */
  readonly second?: number;
  /** A million characters of text that is spoken, where the upstream counts no tokens for it. @default 0 */
  readonly character?: number;
}

/** Prepaid credits: what calls cost, and when an event says that an account runs out of them. */
export interface CreditOptions {
  /** Prices by model, as callers name it. `'*'` is required: the price of every other model, and of calls that name none. */
  readonly prices: Readonly<Record<string, ModelPrice>>;
  /** Credits that every account begins with. @default 0 */
  readonly initialBalance?: number;
  /** `credits.low` is published when a balance falls below so many credits. @default 0 (never) */
  readonly lowThreshold?: number;
  /**
   * Credits that each process leases of a balance in use, so that calls seldom wait for the database. If a burst of
   * calls at one process costs more, calls get 429 until more is leased. @default 10
   */
  readonly allowance?: number;
  /** Tokens that are reserved for an answer whose request names no limit (`max_tokens`). @default 1_000 */
  readonly expectedOutputTokens?: number;
  /**
   * How often each process renews its leases. It is also the longest time until credits that are booked in one
   * process can be spent in another. Milliseconds. @default 500
   */
  readonly renewInterval?: number;
}

const knownOptions = ['prices', 'initialBalance', 'lowThreshold', 'allowance', 'expectedOutputTokens', 'renewInterval'];
const knownPrices = ['input', 'cachedInput', 'output', 'image', 'second', 'character'];
/** A larger number of credits is not exact in micro-credits. */
const maxCredits = 1_000_000_000;

function checkObject(param: string, value: unknown): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) refuseOption(param, 'must be an object');
}

function checkNumber(param: string, value: unknown, min: number, max: number): void {
  if (value === undefined) return;
  if (typeof value !== 'number' || !(value >= min && value <= max)) {
    refuseOption(param, `must be a number from ${min} to ${max}, not ${String(value)}`);
  }
}

/**
 * Checks the option `credits`.
 * @throws GatewayError `invalid_options`, naming the option
 */
export function checkCreditOptions(credits: CreditOptions): void {
  checkObject('credits', credits);
  checkKeys('credits', credits, knownOptions);
  checkObject('credits.prices', credits.prices);
  if (!Object.hasOwn(credits.prices, '*'))
    refuseOption('credits.prices', "must have '*', the price of models not named there");
  for (const [model, price] of Object.entries(credits.prices)) {
    const param = `credits.prices['${model}']`;
    checkObject(param, price);
    checkKeys(param, price, knownPrices);
    for (const [name, value] of Object.entries(price)) checkNumber(`${param}.${name}`, value, 0, maxCredits);
  }
  checkNumber('credits.initialBalance', credits.initialBalance, 0, maxCredits);
  checkNumber('credits.lowThreshold', credits.lowThreshold, 0, maxCredits);
  checkNumber('credits.allowance', credits.allowance, 0.000_001, maxCredits);
  checkNumber('credits.expectedOutputTokens', credits.expectedOutputTokens, 0, maxCredits);
  checkNumber('credits.renewInterval', credits.renewInterval, 10, 10_000);
}
