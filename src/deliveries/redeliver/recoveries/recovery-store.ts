import { randomUUID } from 'node:crypto';
import { GatewayError } from '../../../errors.ts';
import { fromNow } from '../../../mongo/clock.ts';
import { durableCollection } from '../../../mongo/collection.ts';
import { isDuplicateKey } from '../../../mongo/writes/duplicate-key.ts';
import type { RecoveryDocument, RecoveryModel } from './model.ts';

/** The progress of a recovery. */
export type Progress = Pick<RecoveryDocument, 'phase' | 'after' | 'batch' | 'seen' | 'resent' | 'delivered' | 'failed'>;

/** The stored recoveries. One process at a time runs each of them. */
export interface RecoveryStore {
  /** @throws GatewayError `recovery_running` if the webhook has a running recovery */
  start(recovery: RecoveryDocument): Promise<RecoveryDocument>;
  /** Takes the recovery that has waited longest, of none of these accounts; `null` if none waits. */
  take(except: readonly string[]): Promise<RecoveryDocument | null>;
  /** Whether one waits. */
  hasWaiting(except: readonly string[]): Promise<boolean>;
  /** Writes the progress and extends the lease; `false` if the lease was lost. */
  advance(recovery: RecoveryDocument, progress: Partial<Progress>): Promise<boolean>;
  finish(recovery: RecoveryDocument): Promise<void>;
  /** Leaves it to another process. */
  release(recovery: RecoveryDocument): Promise<void>;
}

/** Durations are milliseconds. */
export interface RecoveryStoreDeps {
  readonly recoveries: RecoveryModel;
  /** Names this process in its leases. */
  readonly owner: string;
  readonly lease: number;
  /** How long a recovery is kept after its end. */
  readonly retention: number;
}

const isFree = { $lte: [{ $ifNull: ['$lease.until', new Date(0)] }, '$$NOW'] };

function literals(values: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { $literal: value }]));
}

export function createRecoveryStore({ recoveries, owner, lease, retention }: RecoveryStoreDeps): RecoveryStore {
  const collection = durableCollection(recoveries);
  const waiting = (except: readonly string[]) => ({
    state: 'running' as const,
    ...(except.length > 0 && { userId: { $nin: [...except] } }),
    $expr: isFree,
  });
  const held = (recovery: RecoveryDocument) => ({ _id: recovery._id, 'lease.token': recovery.lease?.token ?? '' });

  return {
    async start(recovery) {
      try {
        await collection.insertOne(recovery);
      } catch (error) {
        if (!isDuplicateKey(error)) throw error;
        const { webhookId } = recovery;
        const running = await collection.findOne({ webhookId, state: 'running' }, { projection: { _id: 1 } });
        const message = `The recovery ${running?._id ?? ''} of this webhook is running; wait until it has ended`;
        throw new GatewayError('recovery_running', message);
      }
      return recovery;
    },
    take: (except) =>
      collection.findOneAndUpdate(
        waiting(except),
        [{ $set: { lease: { owner, token: randomUUID(), until: fromNow(lease) } } }],
        { returnDocument: 'after', sort: { servedAt: 1, _id: 1 } },
      ),
    hasWaiting: async (except) => (await collection.findOne(waiting(except), { projection: { _id: 1 } })) !== null,
    async advance(recovery, progress) {
      const { matchedCount } = await collection.updateOne(held(recovery), [
        { $set: { ...literals(progress), 'lease.until': fromNow(lease) } },
      ]);
      return matchedCount === 1;
    },
    async finish(recovery) {
      await collection.updateOne(held(recovery), [
        { $set: { state: 'done', lease: null, batch: [], endedAt: '$$NOW', expiresAt: fromNow(retention) } },
      ]);
    },
    async release(recovery) {
      await collection.updateOne(held(recovery), [{ $set: { lease: null, servedAt: '$$NOW' } }]);
    },
  };
}
