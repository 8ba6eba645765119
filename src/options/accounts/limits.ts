import type { Principal } from '../../http/principal.ts';
import { checkKeys, refuseOption } from '../checks.ts';

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
  /** How often `shared` counts are exchanged. @default 200 */
  readonly syncInterval?: number;
  /** How long refused calls of one key are summed up in one `rate_limit.exceeded`; aligned to 1970, UTC. @default 300_000 */
  readonly eventWindow?: number;
}

const knownOptions = ['perKey', 'perUser', 'shared', 'syncInterval', 'eventWindow'];
const knownLimits = ['requestsPerMinute', 'tokensPerMinute'];

function checkWhole(param: string, value: unknown, min: number, max: number): void {
  if (value === undefined) return;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    refuseOption(param, `must be a whole number from ${min} to ${max}, not ${String(value)}`);
  }
}

function checkLimits(param: string, limits: RateLimitsFor | undefined): void {
  if (limits === undefined || typeof limits === 'function') return;
  if (typeof limits !== 'object' || limits === null)
    refuseOption(param, 'must be limits, or a function that gives some');
  checkKeys(param, limits, knownLimits);
  for (const [name, value] of Object.entries(limits)) checkWhole(`${param}.${name}`, value, 0, Number.MAX_SAFE_INTEGER);
}

/**
 * Checks the option `limits`.
 * @throws GatewayError `invalid_options`, naming the option
 */
export function checkLimitOptions(limits: LimitOptions): void {
  if (typeof limits !== 'object' || limits === null) refuseOption('limits', 'must be an object');
  checkKeys('limits', limits, knownOptions);
  checkLimits('limits.perKey', limits.perKey);
  checkLimits('limits.perUser', limits.perUser);
  checkWhole('limits.syncInterval', limits.syncInterval, 1, 60_000);
  checkWhole('limits.eventWindow', limits.eventWindow, 100, 86_400_000);
  if (limits.shared !== undefined && typeof limits.shared !== 'boolean')
    refuseOption('limits.shared', 'must be true or false');
}
