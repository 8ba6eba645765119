import { amount, duration, jsonObject, listOf, oneOf, wholeNumber, yesOrNo } from './parsers.ts';

const day = 24 * 60 * 60_000;
const billion = 1_000_000_000;

/** What accounts may have and use, and what it costs. */
export const accountVariables = {
  MAX_API_KEYS: {
    meaning: 'API keys that work one account may have',
    type: wholeNumber(1, 100_000),
    default: '100',
    example: '10',
  },
  KEY_REQUESTS_PER_MINUTE: {
    meaning: 'Model calls one API key may make in a minute',
    type: wholeNumber(0, billion),
    default: 'no limit',
    example: '60',
  },
  KEY_TOKENS_PER_MINUTE: {
    meaning: 'Tokens, input and output together, one API key may use in a minute',
    type: wholeNumber(0, billion),
    default: 'no limit',
    example: '100000',
  },
  USER_REQUESTS_PER_MINUTE: {
    meaning: 'Model calls one account may make in a minute, whatever keys it uses',
    type: wholeNumber(0, billion),
    default: 'no limit',
    example: '600',
  },
  USER_TOKENS_PER_MINUTE: {
    meaning: 'Tokens one account may use in a minute',
    type: wholeNumber(0, billion),
    default: 'no limit',
    example: '1000000',
  },
  SHARED_LIMITS: {
    meaning: 'Whether all gateways on one MongoDB count together what these limits allow',
    type: yesOrNo,
    default: 'false',
    example: 'true',
  },
  LIMIT_EVENT_WINDOW: {
    meaning: 'Time over which refused calls of a key are summed up in one rate_limit.exceeded',
    type: duration(100, day, 'a duration from 100ms to 1d'),
    default: '5m',
    example: '1m',
  },
  QUOTA_UNIT: {
    meaning: 'What DAILY_QUOTA and MONTHLY_QUOTA count; credits need CREDIT_PRICES',
    type: oneOf('tokens', 'requests', 'credits'),
    default: 'tokens',
    example: 'requests',
  },
  DAILY_QUOTA: {
    meaning: 'What an account may use in a day, UTC; usage.threshold tells it, no call is refused',
    type: wholeNumber(1, Number.MAX_SAFE_INTEGER),
    default: 'no quota',
    example: '200000',
  },
  MONTHLY_QUOTA: {
    meaning: 'What an account may use in a calendar month, UTC',
    type: wholeNumber(1, Number.MAX_SAFE_INTEGER),
    default: 'no quota',
    example: '5000000',
  },
  QUOTA_THRESHOLDS: {
    meaning: 'Parts of a quota, in percent, that usage.threshold is sent at',
    type: listOf(wholeNumber(1, 1_000), 20, 'at most 20 percentages such as 50,80,100, or none'),
    default: '80,100',
    example: '50,80,100',
  },
  CREDIT_PRICES: {
    meaning: 'Turns prepaid credits on: what a million tokens (input, cachedInput, output) or one image cost, by model',
    type: jsonObject,
    default: 'no credits are kept',
    example: '{"*":{"input":1,"output":4},"gpt-image-1":{"image":40}}',
  },
  INITIAL_CREDITS: {
    meaning: 'Credits that every account begins with',
    type: amount(billion),
    default: '0',
    example: '5',
  },
  CREDIT_LOW_THRESHOLD: {
    meaning: 'credits.low is sent when a balance falls below so many credits',
    type: amount(billion),
    default: '0, which is never',
    example: '10',
  },
  CREDIT_SLICE: {
    meaning:
      'Credits that each gateway sets aside of a balance in use, so that calls need not wait; a burst that costs more is told 429 for a moment',
    type: amount(billion),
    default: '10',
    example: '0.5',
  },
};
