import { createPeriodic } from '../mongo/periodic.ts';
import type { Logger, OpenUsage, UsageRecord } from '../options/options.ts';
import type { UsageModel } from './model.ts';
import { type CountedRecord, modelNameLimit } from './sums.ts';
import { createWriteOnce, UsageWriter } from './usage-writer.ts';

export interface UsageServiceDeps {
  readonly usage: UsageModel;
  readonly logger: Logger;
  /** The longest that a call can take. An open record that is older, by the margin too, is of a process that died. Milliseconds. */
  readonly longestCall: number;
  /** How long records are gathered before they are written together. Milliseconds. @default 50 */
  readonly flushInterval?: number;
  /** The most records that wait while the database is unavailable. @default 100_000 */
  readonly waitingLimit?: number;
  /** How much clocks may differ before a record counts as orphaned. Milliseconds. @default 60_000 */
  readonly clockMargin?: number;
  /** How often the service looks for orphaned records. Milliseconds. @default 60_000 */
  readonly sweepInterval?: number;
  /** Called with the records of ended calls that this process has written: they can be counted now. */
  readonly onWritten?: (records: readonly CountedRecord[]) => void;
  /** Called with each record of an ended call that will not be written. */
  readonly onLost?: (record: Pick<UsageRecord, 'id' | 'userId'>) => void;
}

/** Records what model calls use: one record for each call, open while it runs. */
export interface UsageService {
  /** Call it when a call is sent to an upstream. */
  opened(usage: OpenUsage): void;
  /** Call it when the answer of a call has ended. */
  closed(record: UsageRecord): void;
  /** Writes the record of a call that has ended, and leaves one of its id that is closed as it is. Resolves when it is durable. */
  recordOnce(record: UsageRecord): Promise<void>;
  /** Call it when a call got no answer, so that there is nothing to record. */
  dropped(id: string): void;
  /** Closes the records of calls whose process died, marked as estimated; resolves to how many. */
  sweep(): Promise<number>;
  /** Sweeps from now on. */
  start(): void;
  /** Stops sweeping, and writes the records that wait. */
  close(): Promise<void>;
}

/** The record, with the name of its model cut to the limit: callers choose it. */
function withinLimit<T extends { readonly model: string | null }>(record: T): T {
  const { model } = record;
  return model !== null && model.length > modelNameLimit
    ? { ...record, model: model.slice(0, modelNameLimit) }
    : record;
}

export function createUsageService(deps: UsageServiceDeps): UsageService {
  const { usage, logger, longestCall, flushInterval: interval = 50, waitingLimit: limit = 100_000 } = deps;
  const { clockMargin = 60_000, sweepInterval = 60_000, onWritten = () => {}, onLost = () => {} } = deps;
  const writeOnce = createWriteOnce(usage);
  const writer = new UsageWriter({ usage, interval, limit, onWritten, onLost, logger });

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
    opened: (record) => writer.open(withinLimit(record)),
    closed: (record) => writer.close(withinLimit(record)),
    dropped: (id) => writer.drop(id),
    async recordOnce(record) {
      onWritten(await writeOnce(withinLimit(record)));
    },
    sweep,
    start: sweeping.start,
    async close() {
      await sweeping.stop();
      await writer.end();
    },
  };
}
