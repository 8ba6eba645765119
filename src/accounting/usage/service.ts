import { createPeriodic } from '../../mongo/periodic.ts';
import { createSetAsideLog } from '../../mongo/writes/item-failure.ts';
import type { Logger, OpenUsage, UsageRecord } from '../../options/options.ts';
import type { UsageModel } from './model.ts';
import { type CountedRecord, modelLimit } from './sums.ts';
import { UsageWriter } from './usage-writer.ts';
import { createWriteUsage } from './write-batch.ts';

export interface UsageServiceDeps {
  readonly usage: UsageModel;
  readonly logger: Logger;
  /** The longest a call can take; an open record older than that and the margin belongs to a process that died. Milliseconds. */
  readonly longestCall: number;
  /** How long records are gathered before they are written together. Milliseconds. @default 50 */
  readonly flushInterval?: number;
  /** The most records that wait while the database is away. @default 100_000 */
  readonly waitingLimit?: number;
  /** What is left for clocks that differ before a record is taken for an orphan. Milliseconds. @default 60_000 */
  readonly clockMargin?: number;
  /** How often orphans are looked for. Milliseconds. @default 60_000 */
  readonly sweepInterval?: number;
  /** Told of records that have ended, were written here, and wait to be counted. @default nobody is told */
  readonly onWritten?: (records: readonly CountedRecord[]) => void;
  /** Told of a record of an ended call that will not be written. @default nobody is told */
  readonly onLost?: (record: Pick<UsageRecord, 'id' | 'userId'>) => void;
}

/** What model calls have used: one record a call, open while it runs. */
export interface UsageService {
  /** A call has been sent to an upstream. */
  opened(usage: OpenUsage): void;
  /** The call was answered, and that has ended. */
  closed(record: UsageRecord): void;
  /** The call was not answered, so there is nothing to record. */
  dropped(id: string): void;
  /** Closes the records of calls whose process died, as estimated; resolves to how many. */
  sweep(): Promise<number>;
  /** Sweeps from now on. */
  start(): void;
  /** Stops sweeping and writes what waits. */
  close(): Promise<void>;
}

/** Logs once that usage records cannot be written, and once that some are lost; how many, when the database is back. */
interface BacklogLog {
  failed(error: unknown): void;
  lost(): void;
  written(): void;
}

function createBacklogLog(logger: Logger): BacklogLog {
  let failing = false;
  let lost = 0;
  return {
    failed(error) {
      const reason = String(error);
      if (!failing) logger.error('usage records could not be written and will be tried again', { reason });
      failing = true;
    },
    lost() {
      if (lost === 0) logger.error('more usage records wait than usageBacklog allows: the oldest are lost');
      lost += 1;
    },
    written() {
      if (failing || lost > 0) logger.warn('usage records are written again', { lost });
      failing = false;
      lost = 0;
    },
  };
}

/** A record whose model's name takes no more than it may, whatever the caller has sent. */
function bounded<T extends { readonly model: string | null }>(record: T): T {
  const { model } = record;
  return model !== null && model.length > modelLimit ? { ...record, model: model.slice(0, modelLimit) } : record;
}

export function createUsageService(deps: UsageServiceDeps): UsageService {
  const { usage, logger, longestCall, flushInterval = 50, waitingLimit = 100_000 } = deps;
  const { clockMargin = 60_000, sweepInterval = 60_000, onWritten = () => {}, onLost = () => {} } = deps;
  const logSetAside = createSetAsideLog(logger, 'usage records cannot be written and are not counted');

  const backlog = createBacklogLog(logger);
  const usageWriter = new UsageWriter({
    write: createWriteUsage(usage),
    interval: flushInterval,
    limit: waitingLimit,
    onWritten,
    onSuccess: backlog.written,
    onLost(record) {
      backlog.lost();
      onLost(record);
    },
    onFailure: backlog.failed,
    onSetAside(error, id, entry) {
      logSetAside(error, { id });
      if (entry.kind === 'closed') onLost(entry.record);
    },
  });

  async function sweep(): Promise<number> {
    const before = { $subtract: ['$$NOW', longestCall + clockMargin] };
    const { modifiedCount } = await usage.updateMany(
      { ending: null, $expr: { $lt: ['$startedAt', before] } },
      [
        {
          $set: {
            ending: 'orphaned',
            estimated: true,
            durationMs: { $subtract: ['$$NOW', '$startedAt'] },
            counted: false,
          },
        },
      ],
      { updatePipeline: true },
    );
    return modifiedCount;
  }

  const sweeping = createPeriodic({
    name: 'the sweep for orphaned calls',
    task: sweep,
    interval: sweepInterval,
    logger,
  });

  return {
    opened: (record) => usageWriter.open(bounded(record)),
    closed: (record) => usageWriter.close(bounded(record)),
    dropped: (id) => usageWriter.drop(id),
    sweep,
    start: sweeping.start,
    async close() {
      await sweeping.stop();
      await usageWriter.end();
    },
  };
}
