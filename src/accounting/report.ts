import { refuse } from '../errors.ts';
import { durableCollection } from '../mongo/collection.ts';
import type { CounterModel, UsageSums } from './model.ts';
import { microCreditsPerCredit } from './price.ts';
import { dayOf, furtherFields, summed } from './sums.ts';

/** What usage can be grouped by. */
export type UsageDimension = 'day' | 'model' | 'key';

/** Days are UTC, `2026-01-31`; the first and the last are included. */
export interface UsageQuery {
  /** @default 30 days before `to` */
  readonly from?: string;
  /** @default today */
  readonly to?: string;
  /** @default ['day'] */
  readonly groupBy?: readonly UsageDimension[];
}

/** One line of a report, with the dimensions that the query groups by. */
export interface UsageLine extends Omit<UsageSums, 'microCredits'> {
  readonly day?: string;
  readonly model?: string | null;
  readonly keyId?: string | null;
  /** What it cost; absent if it cost nothing. */
  readonly credits?: number;
}

export interface UsageReport {
  readonly from: string;
  readonly to: string;
  readonly lines: readonly UsageLine[];
  /** Whether the report was cut at {@link lineLimit}. */
  readonly hasMore: boolean;
}

/** Reads an account's usage. Calls appear in it a moment after they end. */
export type ReportUsage = (userId: string, query: UsageQuery) => Promise<UsageReport>;

const dayLength = 86_400_000;
/** The most days of one report. */
const longestRange = 366;
/** The most lines of one report. */
const lineLimit = 1_000;

const fieldOf = { day: 'day', model: 'model', key: 'keyId' } as const satisfies Record<UsageDimension, string>;

/** Whether usage can be grouped by it. */
export function isUsageDimension(name: string): name is UsageDimension {
  return Object.hasOwn(fieldOf, name);
}

function parseDay(param: string, text: string): number {
  const time = Date.parse(`${text}T00:00:00.000Z`);
  if (Number.isFinite(time) && dayOf(new Date(time)) === text) return time;
  refuse('invalid_value', param, 'must be a day such as 2026-01-31');
}

/** @throws GatewayError `invalid_value` for a day that does not exist, or a range that is empty or too long */
function rangeOf({ from, to }: UsageQuery): { from: string; to: string } {
  const last = to === undefined ? Math.floor(Date.now() / dayLength) * dayLength : parseDay('to', to);
  const first = from === undefined ? last - 30 * dayLength : parseDay('from', from);
  const days = (last - first) / dayLength + 1;
  if (days < 1 || days > longestRange) {
    refuse('invalid_value', 'from', `must be at most ${longestRange - 1} days before to, and not after it`);
  }
  return { from: dayOf(new Date(first)), to: dayOf(new Date(last)) };
}

export function createReport(model: CounterModel): ReportUsage {
  const counters = durableCollection(model);

  return async function report(userId, query) {
    const { from, to } = rangeOf(query);
    const fields = [...new Set<UsageDimension>(query.groupBy ?? ['day'])].map((dimension) => fieldOf[dimension]);
    const groups = await counters
      .aggregate<{ _id: Omit<UsageLine, keyof UsageSums | 'credits'>; microCredits: number } & UsageSums>([
        { $match: { userId, day: { $gte: from, $lte: to } } },
        { $group: { _id: Object.fromEntries(fields.map((field) => [field, `$${field}`])), ...summed } },
        { $sort: { _id: 1 } },
        { $limit: lineLimit + 1 },
      ])
      .toArray();
    const lines = groups.slice(0, lineLimit).map(({ _id, microCredits, ...sums }) => {
      for (const name of furtherFields) if (sums[name] === 0) delete sums[name];
      return { ..._id, ...sums, ...(microCredits > 0 && { credits: microCredits / microCreditsPerCredit }) };
    });
    return { from, to, lines, hasMore: groups.length > lineLimit };
  };
}
