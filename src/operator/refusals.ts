import { type ErrorCode, errorStatus, refuse } from '../errors.ts';
import type { EndedRequest } from '../http/operation.ts';
import { checkUserId } from '../ids.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { hourLength, hourOf } from '../mongo/durations.ts';
import type { Logger } from '../options/options.ts';
import type { RefusalDocument, RefusalModel } from './model.ts';

/** How long refusals are gathered before they are written; a process that is killed loses them. Milliseconds. */
const interval = 1_000;
/** The most accounts whose refusals are gathered at once in an hour; those of others are left out. */
const accountLimit = 10_000;

interface Gathered {
  readonly hour: Date;
  readonly userId: string | null;
  readonly counts: Map<ErrorCode, number>;
}

/** The provider has refused the first; the second may have been carried out. */
const notRefused: ReadonlySet<ErrorCode> = new Set(['upstream_rate_limited', 'publish_unconfirmed']);

/** Whether the gateway or its operator's limits turned a request away, rather than that it failed. */
function isRefusal(code: ErrorCode): boolean {
  return !notRefused.has(code) && (errorStatus[code] < 500 || errorStatus[code] === 503);
}

function toUpsert([_id, { hour, userId, counts }]: readonly [string, Gathered]) {
  const added = Object.fromEntries([...counts].map(([code, count]) => [`counts.${code}`, count]));
  return { updateOne: { filter: { _id }, update: { $inc: added, $setOnInsert: { hour, userId } }, upsert: true } };
}

const writeOptions = { ordered: false, writeConcern: { w: 1 } } as const;

/** Counts refused requests in memory, and adds them to the stored counts at intervals. */
export function createRefusalRecorder(refusals: RefusalModel, logger: Pick<Logger, 'warn'>) {
  const collection = durableCollection(refusals);
  let gathered = new Map<string, Gathered>();
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();
  let failing = false;

  async function write(): Promise<void> {
    const batch = gathered;
    gathered = new Map();
    if (batch.size === 0) return;
    try {
      await collection.bulkWrite([...batch].map(toUpsert), writeOptions);
      failing = false;
    } catch (error) {
      // one line until a write succeeds again
      if (!failing) logger.warn('counts of refused requests were lost', { reason: String(error) });
      failing = true;
    }
  }

  /** Writes what is gathered; resolves when it is written, or lost with a warning. */
  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    writing = writing.then(write);
    return writing;
  }

  return {
    ended({ code, principal }: EndedRequest): void {
      if (code === undefined || !isRefusal(code)) return;
      const userId = principal?.userId ?? null;
      const hour = new Date(hourOf(Date.now()));
      const id = JSON.stringify([hour.toISOString(), userId]);
      const present = gathered.get(id);
      if (!present && gathered.size >= accountLimit) return;
      const { counts } = present ?? { counts: new Map<ErrorCode, number>() };
      if (!present) gathered.set(id, { hour, userId, counts });
      counts.set(code, (counts.get(code) ?? 0) + 1);
      timer ??= setTimeout(flush, interval).unref();
    },
    /** Flushes for the last time. */
    async close(): Promise<void> {
      await flush();
      clearTimeout(timer);
    },
  };
}

/** Which refusals are listed. */
export interface RefusalQuery {
  /** How many hours, the present one included: 1 to 168. @default 24 */
  readonly hours?: number;
  /** @default all accounts */
  readonly userId?: string;
}

/** How many requests were refused for one reason. */
export interface RefusalCount {
  readonly code: ErrorCode;
  readonly count: number;
}

/** The same of one account in one hour. */
export interface Refusal extends RefusalCount {
  /** When the hour began. */
  readonly hour: Date;
  /** `null` where no account became known. */
  readonly userId: string | null;
}

export interface RefusalReport {
  /** When the first hour began. */
  readonly since: Date;
  /** The newest hour first, and in it what was refused most; of an hour with more than fit, any may be missing. */
  readonly refusals: readonly Refusal[];
  /** Whether there are more than 1,000. */
  readonly hasMore: boolean;
}

/**
 * Lists what was refused, some seconds late.
 * @throws GatewayError `invalid_value`
 */
export type ListRefusals = (query?: RefusalQuery) => Promise<RefusalReport>;

/** The most lines of one report. */
const lineLimit = 1_000;
const maxHours = 168;

function toRefusals({ hour, userId, counts }: RefusalDocument): Refusal[] {
  return Object.entries(counts).map(([code, count]) => ({ hour, userId, code: code as ErrorCode, count }));
}

export function createListRefusals(model: RefusalModel): ListRefusals {
  const collection = durableCollection(model);

  return async function listRefusals({ hours = 24, userId } = {}) {
    if (!Number.isInteger(hours) || hours < 1 || hours > maxHours) {
      refuse('invalid_value', 'hours', `must be a whole number from 1 to ${maxHours}`);
    }
    if (userId !== undefined) checkUserId(userId);
    const since = new Date(hourOf(Date.now()) - (hours - 1) * hourLength);
    const hint = userId === undefined ? 'expiry' : 'userHours';
    // each document has a line at least
    const options = { hint, sort: { hour: -1 }, limit: lineLimit + 1, ...inOneBatch } as const;
    const filter = { ...(userId !== undefined && { userId }), hour: { $gte: since } };
    const documents = await collection.find(filter, options).toArray();
    const all = documents
      .flatMap(toRefusals)
      .sort((a, b) => b.hour.getTime() - a.hour.getTime() || b.count - a.count || a.code.localeCompare(b.code));
    return { since, refusals: all.slice(0, lineLimit), hasMore: all.length > lineLimit };
  };
}

/** Sums refusals up by their code, the most first. */
export function countByCode(refusals: readonly RefusalCount[]): RefusalCount[] {
  const counts = new Map<ErrorCode, number>();
  for (const { code, count } of refusals) counts.set(code, (counts.get(code) ?? 0) + count);
  return [...counts].map(([code, count]) => ({ code, count })).sort((a, b) => b.count - a.count);
}
