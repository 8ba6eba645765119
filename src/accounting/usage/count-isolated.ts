import { createSetAsideLog, itemFailures, writeIsolated } from '../../mongo/batcher.ts';
import { durableCollection } from '../../mongo/collection.ts';
import type { Logger } from '../../options/options.ts';
import type { UsageFilter } from './count-batch.ts';
import type { UsageModel } from './model.ts';

export interface CountIsolatedDeps {
  readonly usage: UsageModel;
  /** Counts the records that the filter finds, all or none. */
  readonly count: (filter: UsageFilter) => Promise<unknown>;
  /** The most records of one run. */
  readonly batchSize: number;
  /** How long counting may take. Milliseconds. */
  readonly timeout: number;
  readonly logger: Logger;
}

/** Counts the records that the filter finds, and sets aside those that cannot be counted; resolves to how many it has found. */
export type CountIsolated = (filter: UsageFilter) => Promise<number>;

export function createCountIsolated({ count, batchSize, timeout, logger, ...deps }: CountIsolatedDeps): CountIsolated {
  const usage = durableCollection(deps.usage);
  const logSetAside = createSetAsideLog(logger, 'usage records cannot be counted and were set aside');
  const options = { projection: { _id: 1 }, sort: { _id: 1 }, limit: batchSize } as const;

  /** To repair such a record, find it by `uncountable`, correct it and set `counted: false`. */
  async function setAside(_id: string, error: unknown): Promise<void> {
    await usage.updateOne({ _id, counted: false }, { $set: { uncountable: true }, $unset: { counted: 1 } });
    logSetAside(error, { id: _id });
  }

  return async function countIsolated(filter) {
    const ids = (await usage.find(filter, options).toArray()).map(({ _id }) => _id);
    const outcomes = await writeIsolated(ids, {
      timeout,
      async write(part) {
        await count({ _id: { $in: [...part] }, counted: false });
        return [];
      },
    });
    for (const [id, error] of itemFailures(ids, outcomes)) await setAside(id, error);
    return ids.length;
  };
}
