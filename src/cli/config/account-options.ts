import { GatewayError } from '../../errors.ts';
import { refuseOption } from '../../options/checks.ts';
import type { ModelGatewayOptions } from '../../options/options.ts';
import { type Settings, settingOf, type VariableName } from './environment.ts';
import { omitUndefined } from './omit-undefined.ts';

type AccountOptions = Pick<ModelGatewayOptions, 'maxApiKeys' | 'limits' | 'quotas' | 'credits' | 'eventTypes'>;

function limitsOf(settings: Settings): AccountOptions['limits'] {
  const perKey = omitUndefined({
    requestsPerMinute: settings.KEY_REQUESTS_PER_MINUTE,
    tokensPerMinute: settings.KEY_TOKENS_PER_MINUTE,
  });
  const perUser = omitUndefined({
    requestsPerMinute: settings.USER_REQUESTS_PER_MINUTE,
    tokensPerMinute: settings.USER_TOKENS_PER_MINUTE,
  });
  const limits = {
    ...(Object.keys(perKey).length > 0 && { perKey }),
    ...(Object.keys(perUser).length > 0 && { perUser }),
    ...omitUndefined({ shared: settings.SHARED_LIMITS, eventWindow: settings.LIMIT_EVENT_WINDOW }),
  };
  return Object.keys(limits).length > 0 ? limits : undefined;
}

function quotasOf(settings: Settings): AccountOptions['quotas'] {
  const { DAILY_QUOTA: daily, MONTHLY_QUOTA: monthly } = settings;
  if (daily === undefined && monthly === undefined) return undefined;
  const unit = settingOf(settings, 'QUOTA_UNIT');
  return {
    perUser: { unit, ...omitUndefined({ daily, monthly }) },
    ...omitUndefined({ thresholds: settings.QUOTA_THRESHOLDS, enforce: settings.QUOTA_ENFORCE }),
  };
}

function creditsOf(settings: Settings): AccountOptions['credits'] {
  const { CREDIT_PRICES, INITIAL_CREDITS, CREDIT_LOW_THRESHOLD, CREDIT_ALLOWANCE } = settings;
  if (!CREDIT_PRICES) return undefined;
  const prices = CREDIT_PRICES as NonNullable<AccountOptions['credits']>['prices'];
  const amounts = { initialBalance: INITIAL_CREDITS, lowThreshold: CREDIT_LOW_THRESHOLD, allowance: CREDIT_ALLOWANCE };
  return { prices, ...omitUndefined(amounts) };
}

/** The options about what accounts may do and have, as the environment sets them. */
export function accountOptions(settings: Settings): AccountOptions {
  return omitUndefined({
    maxApiKeys: settings.MAX_API_KEYS,
    limits: limitsOf(settings),
    quotas: quotasOf(settings),
    credits: creditsOf(settings),
    eventTypes: settings.EVENT_TYPES as AccountOptions['eventTypes'],
  });
}

/** Each variable here is of no use without one of those behind it. */
const needs: readonly (readonly [VariableName, readonly VariableName[]])[] = [
  ['QUOTA_UNIT', ['DAILY_QUOTA', 'MONTHLY_QUOTA']],
  ['QUOTA_THRESHOLDS', ['DAILY_QUOTA', 'MONTHLY_QUOTA']],
  ['QUOTA_ENFORCE', ['DAILY_QUOTA', 'MONTHLY_QUOTA']],
  ['INITIAL_CREDITS', ['CREDIT_PRICES']],
  ['CREDIT_LOW_THRESHOLD', ['CREDIT_PRICES']],
  ['CREDIT_ALLOWANCE', ['CREDIT_PRICES']],
  [
    'SHARED_LIMITS',
    ['KEY_REQUESTS_PER_MINUTE', 'KEY_TOKENS_PER_MINUTE', 'USER_REQUESTS_PER_MINUTE', 'USER_TOKENS_PER_MINUTE'],
  ],
];

/** Which variable an option of the package comes from, for errors that the package finds in it. */
const variableOf: readonly (readonly [option: string, VariableName])[] = [
  ['credits.prices', 'CREDIT_PRICES'],
  ['credits.allowance', 'CREDIT_ALLOWANCE'],
  ['eventTypes', 'EVENT_TYPES'],
  ['backgroundPollLimit', 'BACKGROUND_POLL_LIMIT'],
];

/** The same error with the names of the environment variables: `CREDIT_PRICES['gpt-5'].inputs: is not an option …`. */
export function namingVariable(error: unknown): unknown {
  if (!(error instanceof GatewayError)) return error;
  const named = variableOf.find(([option]) => error.message.startsWith(option));
  if (!named) return error;
  const [option, variable] = named;
  return new GatewayError(error.code, variable + error.message.slice(option.length), { param: variable, cause: error });
}

/**
 * Makes sure that the settings about accounts belong together.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function checkAccountSettings(settings: Settings): void {
  for (const [name, others] of needs) {
    if (settings[name] === undefined || others.some((other) => settings[other] !== undefined)) continue;
    refuseOption(name, `is set without ${others.join(' or ')}, so nothing would use it`);
  }
  if (settings.QUOTA_UNIT === 'credits' && !settings.CREDIT_PRICES) {
    refuseOption('QUOTA_UNIT', 'is credits without CREDIT_PRICES; set those, or count tokens or requests');
  }
}
