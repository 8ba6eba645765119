import { type ErrorCode, errorStatus } from '../../errors.ts';
import type { EndedRequest, RequestObserver } from '../../http/operation.ts';
import { durableCollection } from '../../mongo/collection.ts';
import type { Logger } from '../../options/options.ts';
import { hourOf } from '../../statistics/durations.ts';
import type { RefusalModel } from './model.ts';

export interface RefusalRecorderDeps {
  readonly refusals: RefusalModel;
  /** How long refusals are gathered before they are written; a process that is killed loses them. Milliseconds. */
  readonly interval: number;
  /** The most accounts whose refusals are gathered at once; those of others are left out. @default 10_000 */
  readonly limit?: number;
  readonly logger: Pick<Logger, 'warn'>;
}

/** Counts refused requests in memory, and adds them to the stored counts at intervals. */
export interface RefusalRecorder extends RequestObserver {
  /** Writes what is gathered; resolves when it is written, or lost with a warning. */
  flush(): Promise<void>;
  /** Flushes for the last time. */
  close(): Promise<void>;
}

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

export function createRefusalRecorder(deps: RefusalRecorderDeps): RefusalRecorder {
  const { refusals, interval, limit = 10_000, logger } = deps;
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

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    writing = writing.then(write);
    return writing;
  }

  return {
    ended({ code, principal }: EndedRequest) {
      if (code === undefined || !isRefusal(code)) return;
      const userId = principal?.userId ?? null;
      const hour = new Date(hourOf(Date.now()));
      const id = JSON.stringify([hour.toISOString(), userId]);
      const present = gathered.get(id);
      if (!present && gathered.size >= limit) return;
      const { counts } = present ?? { counts: new Map<ErrorCode, number>() };
      if (!present) gathered.set(id, { hour, userId, counts });
      counts.set(code, (counts.get(code) ?? 0) + 1);
      timer ??= setTimeout(flush, interval).unref();
    },
    flush,
    async close() {
      await flush();
      clearTimeout(timer);
    },
  };
}
