import { GatewayError } from '../../errors.ts';
import { durableCollection } from '../../mongo/collection.ts';
import type { PeriodModel } from './model.ts';
import { countedLimit, type QuotaOf, usedOf } from './quotas.ts';
import { dayOf, periodsOf } from './sums.ts';

type Period = 'daily' | 'monthly';

/** A quota that is used up. */
interface UsedUp {
  readonly period: Period;
  readonly limit: number;
  readonly unit: string;
}

/** What is known of an account: which of its quotas is used up. */
interface Known {
  readonly usedUp: UsedUp | undefined;
  /** When the read of it began, by `performance.now()`. */
  readonly readAt: number;
}

/** Resolves, or returns at once, where an account may make a call. @throws GatewayError `insufficient_quota` */
export type EnforceQuotas = (userId: string) => Promise<undefined> | undefined;

export interface EnforceQuotasDeps {
  readonly periods: PeriodModel;
  readonly quotaOf: QuotaOf;
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: () => number;
}

/** How long what was read is used. Milliseconds. */
const lifetime = 1_000;
/** The most accounts that are remembered. */
const capacity = 10_000;

function exceeded({ period, limit, unit }: UsedUp): GatewayError {
  const next = period === 'daily' ? 'day' : 'month';
  const message = `This account has used its ${period} quota of ${limit} ${unit}; it begins anew with the next ${next} (UTC)`;
  return new GatewayError('insufficient_quota', message, { headers: { 'x-should-retry': 'false' } });
}

/**
 * Refuses the calls of an account whose quota of the day or month is used up, by what has been counted: about a second after a
 * call has ended. So an account may exceed its quota by what it uses in that second, and by its calls under way.
 */
export function createEnforceQuotas({ quotaOf, now = Date.now, ...deps }: EnforceQuotasDeps): EnforceQuotas {
  const periods = durableCollection(deps.periods);
  const known = new Map<string, Known>();
  const reading = new Map<string, Promise<Known>>();

  async function read(userId: string): Promise<Known> {
    const readAt = performance.now();
    const quota = quotaOf(userId);
    const keys = periodsOf({ userId }, dayOf(new Date(now())));
    const found = quota ? await periods.find({ _id: { $in: keys.map(({ _id }) => _id) } }).toArray() : [];
    const [usedUp] = found.flatMap((document): UsedUp[] => {
      const { period } = document;
      const limit = quota?.[period];
      if (!quota || limit === undefined) return [];
      const { unit } = quota;
      return usedOf(document, unit) >= countedLimit(limit, unit) ? [{ period, limit, unit }] : [];
    });
    const entry = { usedUp, readAt };
    known.delete(userId);
    known.set(userId, entry);
    for (const oldest of known.keys()) {
      if (known.size <= capacity) break;
      known.delete(oldest);
    }
    return entry;
  }

  /** One read at a time for each account. */
  function readOnce(userId: string): Promise<Known> {
    const present = reading.get(userId) ?? read(userId).finally(() => reading.delete(userId));
    reading.set(userId, present);
    return present;
  }

  function judge({ usedUp }: Known): undefined {
    if (usedUp) throw exceeded(usedUp);
  }

  return (userId) => {
    if (!quotaOf(userId)) return undefined;
    const entry = known.get(userId);
    if (entry && performance.now() - entry.readAt < lifetime) return judge(entry);
    // while the database is unavailable, calls go on by what is known
    return readOnce(userId).then(judge, () => entry && judge(entry));
  };
}
