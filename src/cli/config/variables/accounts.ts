import { amount, duration, jsonObject, listOf, oneOf, wholeNumber, yesOrNo } from '../parsers.ts';

const day = 24 * 60 * 60_000;
const billion = 1_000_000_000;

/** What accounts may have and use, and what it costs. */
export const accountVariables = {
  MAX_API_KEYS: {
    meaning: 'Maximum number of active API keys per account',
    type: wholeNumber(1, 100_000),
    default: '100',
    example: '10',
  },
  MANAGEMENT_RATE_LIMIT: {
    meaning:
      'Requests that change something (webhooks, API keys, resends, recoveries, test events, top-ups) that one account may make per minute, in each process',
    type: wholeNumber(1, 1_000_000),
    default: '300',
    example: '60',
  },
  READ_RATE_LIMIT: {
    meaning: 'Read requests (GET) that one account may make per minute, in each process',
    type: wholeNumber(1, 1_000_000),
    default: '6000',
    example: '600',
  },
  KEY_REQUESTS_PER_MINUTE: {
    meaning: 'Model calls that one API key may make per minute',
    type: wholeNumber(0, billion),
    default: 'no limit',
    example: '60',
  },
  KEY_TOKENS_PER_MINUTE: {
    meaning: 'Tokens, input and output together, that one API key may use per minute',
    type: wholeNumber(0, billion),
    default: 'no limit',
    example: '100000',
  },
  USER_REQUESTS_PER_MINUTE: {
    meaning: 'Model calls that one account may make per minute with all its keys',
    type: wholeNumber(0, billion),
    default: 'no limit',
    example: '600',
  },
  USER_TOKENS_PER_MINUTE: {
    meaning: 'Tokens that one account may use per minute',
    type: wholeNumber(0, billion),
    default: 'no limit',
    example: '1000000',
  },
  SHARED_LIMITS: {
    meaning: 'Whether all gateways on one MongoDB share the counts of these limits',
    type: yesOrNo,
    default: 'false',
    example: 'true',
  },
  LIMIT_EVENT_WINDOW: {
    meaning: 'How long refused calls of a key are collected into one rate_limit.exceeded event',
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
    meaning: 'What an account may use per day (UTC); usage.threshold events report it, no call is refused',
    type: wholeNumber(1, Number.MAX_SAFE_INTEGER),
    default: 'no quota',
    example: '200000',
  },
  MONTHLY_QUOTA: {
    meaning: 'What an account may use per calendar month (UTC)',
    type: wholeNumber(1, Number.MAX_SAFE_INTEGER),
    default: 'no quota',
    example: '5000000',
  },
  QUOTA_THRESHOLDS: {
    meaning: 'Percentages of a quota at which usage.threshold is sent',
    type: listOf(wholeNumber(1, 1_000), 20, 'at most 20 percentages such as 50,80,100, or none'),
    default: '80,100',
    example: '50,80,100',
  },
  QUOTA_ENFORCE: {
    meaning: 'Whether calls of an account are refused (429 insufficient_quota) once its quota is used up',
    type: yesOrNo,
    default: 'false',
    example: 'true',
  },
  CREDIT_PRICES: {
    meaning:
      'Turns on prepaid credits: the price of a million tokens (input, cachedInput, output) or characters (character), of one image or of one second, by model',
    type: jsonObject,
    default: 'no credits are kept',
    example: '{"*":{"input":1,"output":4},"gpt-image-1":{"image":40}}',
  },
  INITIAL_CREDITS: {
    meaning: 'Credits that every account starts with',
    type: amount(billion),
    default: '0',
    example: '5',
  },
  CREDIT_LOW_THRESHOLD: {
    meaning: 'credits.low is sent when a balance falls below this many credits',
    type: amount(billion),
    default: '0, which is never',
    example: '10',
  },
  CREDIT_ALLOWANCE: {
    meaning:
      'Credits that each process leases of a balance in use, so that calls do not wait; a burst that costs more gets 429 for a moment',
    type: amount(billion),
    default: '10',
    example: '0.5',
  },
};
