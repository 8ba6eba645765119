import { createHash } from 'node:crypto';
import type { EventInput } from '../events/service.ts';
import { createSetAsideLog, isItemFailure, itemFailures, writeIsolated } from '../mongo/batcher.ts';
import type { durableCollection } from '../mongo/collection.ts';
import { duplicatesIn } from '../mongo/writes.ts';
import type { Logger } from '../options/options.ts';
import type { ExceededDocument } from './model.ts';
import { createPublishOrLog } from './publish-or-log.ts';

/** Calls of one key that were refused. */
interface RefusedCall {
  readonly userId: string;
  readonly apiKeyId: string | null;
  /** The limit: requests or tokens in the limiter's own period. */
  readonly limit: number;
  readonly count: number;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** One key's refused calls in one window, as this process has counted them. */
interface WindowCount {
  readonly id: string;
  readonly key: Omit<RefusedCall, 'count' | 'at'>;
  /** When the window begins. Milliseconds since 1970. */
  readonly start: number;
  count: number;
  /** How much of the count is in the database. */
  writtenCount: number;
}

export interface RefusedCallsDeps {
  readonly exceeded: ReturnType<typeof durableCollection<ExceededDocument>>;
  /** This process, `wrk_…`. */
  readonly owner: string;
  /** Milliseconds. */
  readonly window: number;
  /** How long counts are gathered before they are written together. A kill loses this much. Milliseconds. */
  readonly flushInterval: number;
  readonly logger: Logger;
}

/**
 * Counts refused calls by key and window, and writes the counts in groups. Each process writes its own total, so a write whose
 * outcome is unknown can be repeated.
 */
export class RefusedCalls {
  readonly #deps: RefusedCallsDeps;
  readonly #logSetAside: ReturnType<typeof createSetAsideLog>;
  readonly #counts = new Map<string, WindowCount>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;

  constructor(deps: RefusedCallsDeps) {
    this.#deps = deps;
    this.#logSetAside = createSetAsideLog(deps.logger, 'refused calls cannot be counted and were left out');
  }

  /** Calls that are reported late count in the window before, which may still be open. */
  add({ count, at, ...key }: RefusedCall): void {
    const now = Date.now();
    const oldest = this.#startOf(now) - this.#deps.window;
    this.#addTo(this.#startOf(Math.min(now, Math.max(at, oldest))), key, count);
    this.#schedule();
  }

  /** Writes all counts. Rejects if the database does not accept them; they are then kept and written later. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#writing?.catch(() => {});
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
    try {
      await this.#writing;
    } finally {
      // what could not be written, and what was carried over
      if (this.#unwritten().length > 0) this.#schedule();
    }
  }

  /** Writes all counts, if the database accepts them. */
  async close(): Promise<void> {
    await this.#tryFlush();
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.#tryFlush(), this.#deps.flushInterval).unref();
  }

  async #tryFlush(): Promise<void> {
    await this.flush().catch((error) => {
      this.#deps.logger.warn('refused calls could not be counted and will be tried again', { reason: String(error) });
    });
  }

  async #writeAll(): Promise<void> {
    const { exceeded, owner } = this.#deps;
    const batch = this.#unwritten().map((entry) => ({ entry, count: entry.count }));
    const outcomes = await writeIsolated(batch, { write: (part) => this.#write(part) });
    for (const [i, { entry, count }] of batch.entries()) {
      const outcome = outcomes[i];
      if (!outcome || 'error' in outcome) continue;
      if (!outcome.result) {
        entry.writtenCount = count;
        continue;
      }
      const stored = await exceeded.findOne({ _id: entry.id });
      // two processes have inserted it at once, and this one is written again
      if (stored?.state === 'open') continue;
      this.#carryOver(entry, stored?.counts[owner] ?? 0);
    }
    for (const [{ entry }, error] of itemFailures(batch, outcomes)) {
      this.#counts.delete(entry.id);
      this.#logSetAside(error);
    }
    this.#forgetPast();
  }

  /** @returns of each count, whether it met a duplicate: that window is closed, or another process has opened it at the same moment */
  async #write(part: readonly { readonly entry: WindowCount; readonly count: number }[]): Promise<boolean[]> {
    const { exceeded, owner, window } = this.#deps;
    const operations = part.map(({ entry: { id, key, start }, count }) => ({
      updateOne: {
        filter: { _id: id, state: 'open' as const },
        update: {
          $max: { [`counts.${owner}`]: count },
          $setOnInsert: { ...key, windowStart: new Date(start), windowEnd: new Date(start + window) },
        },
        upsert: true,
      },
    }));
    const duplicates = await exceeded
      .bulkWrite(operations, { ordered: false })
      .then(() => new Set<number>(), duplicatesIn);
    return part.map((_, i) => duplicates.has(i));
  }

  #unwritten(): WindowCount[] {
    return [...this.#counts.values()].filter(({ count, writtenCount }) => count > writtenCount);
  }

  /**
   * Moves what is not written to the next window that can still be open: this one was closed before its last counts were written.
   * @param writtenCount how much of the count is in the database
   */
  #carryOver(closed: WindowCount, writtenCount: number): void {
    this.#counts.delete(closed.id);
    const missing = closed.count - writtenCount;
    const next = Math.max(this.#startOf(Date.now()), closed.start + this.#deps.window);
    if (missing > 0) this.#addTo(next, closed.key, missing);
  }

  /** Forgets what is written of windows that are over. */
  #forgetPast(): void {
    const oldest = Date.now() - 2 * this.#deps.window;
    for (const { id, count, writtenCount, start } of this.#counts.values()) {
      if (count <= writtenCount && start <= oldest) this.#counts.delete(id);
    }
  }

  #startOf(at: number): number {
    return Math.floor(at / this.#deps.window) * this.#deps.window;
  }

  #addTo(start: number, key: WindowCount['key'], count: number): void {
    const id = JSON.stringify([start, key.userId, key.apiKeyId]);
    const present = this.#counts.get(id);
    if (present) present.count += count;
    else this.#counts.set(id, { id, key, start, count, writtenCount: 0 });
  }
}

export interface ClosingDeps {
  readonly exceeded: ReturnType<typeof durableCollection<ExceededDocument>>;
  readonly publish: (input: EventInput, options: { readonly idempotencyKey: string }) => Promise<unknown>;
  /** How long a window stays open after its end, for counts that arrive late. Milliseconds. */
  readonly grace: number;
  readonly logger: Logger;
}

const batchSize = 100;

/** The same in every process, and short enough for an idempotency key. */
function idempotencyKeyOf({ _id }: ExceededDocument): string {
  return `rate_limit.exceeded:${createHash('sha256').update(_id).digest('hex')}`;
}

function toEvent({ userId, apiKeyId, limit, counts, windowStart, windowEnd }: ExceededDocument): EventInput {
  return {
    type: 'rate_limit.exceeded',
    userId,
    data: {
      user_id: userId,
      api_key_id: apiKeyId ?? 'none',
      limit,
      rejected_requests: Object.values(counts).reduce((sum, count) => sum + count, 0),
      window_start: windowStart.toISOString(),
      window_end: windowEnd.toISOString(),
    },
  };
}

/**
 * Closes the windows that are over by the database's clock, and publishes each. May run in any number of processes at
 * once and may stop at any step: a closed window no longer changes, and its idempotency key is derived from it.
 */
export function createClosing(deps: ClosingDeps): () => Promise<void> {
  const { exceeded, publish, grace, logger } = deps;
  const publishOrLog = createPublishOrLog(publish, logger);
  const logSetAside = createSetAsideLog(logger, 'refused calls cannot be published and were left out');

  async function publishWindow(window: ExceededDocument): Promise<void> {
    try {
      await publishOrLog(toEvent(window), { idempotencyKey: idempotencyKeyOf(window) });
    } catch (error) {
      if (!isItemFailure(error)) throw error;
      // a retry would fail too, and would delay the windows after it
      logSetAside(error);
    }
    await exceeded.updateOne({ _id: window._id }, [{ $set: { state: 'published', expiresAt: '$$NOW' } }]);
  }

  return async function closeWindows() {
    const hasEnded = { $expr: { $lt: ['$windowEnd', { $subtract: ['$$NOW', grace] }] } };
    // usually there is none
    const any = await exceeded.findOne({ state: { $in: ['open', 'closed'] }, ...hasEnded }, { projection: { _id: 1 } });
    if (!any) return;
    await exceeded.updateMany({ state: 'open', ...hasEnded }, { $set: { state: 'closed' } });
    const closed = await exceeded.find({ state: 'closed' }).sort({ windowEnd: 1 }).limit(batchSize).toArray();
    for (const window of closed) await publishWindow(window);
  };
}
