import type { ClientSession } from 'mongoose';
import type { PublishOrLog } from '../publish-or-log.ts';
import type { AccountDocument } from './model.ts';
import { toCredits } from './price.ts';

/** A balance that has moved. */
interface MovedBalance {
  readonly userId: string;
  readonly before: Pick<AccountDocument, 'low' | 'depleted'>;
  /** What it is now. Micro-credits. */
  readonly balance: number;
  /** The id of the ledger entry that moved it. */
  readonly cause: string;
}

/** Publishes `credits.low` and `credits.depleted` if a balance has fallen that far, in the transaction that moved it. */
export type PublishLowBalance = (moved: MovedBalance, session?: ClientSession) => Promise<void>;

/** @param lowThreshold micro-credits; 0 for no `credits.low` */
export function createPublishLowBalance(publishOrLog: PublishOrLog, lowThreshold: number): PublishLowBalance {
  async function publishOne(type: string, { userId, cause }: MovedBalance, data: object, session?: ClientSession) {
    const event = { type, userId, data: { user_id: userId, ...data } };
    await publishOrLog(event, { idempotencyKey: `${type}:${cause}`, ...(session && { session }) });
  }

  return async function publishLowBalance(moved, session) {
    const { before, balance } = moved;
    if (!before.low && balance < lowThreshold && lowThreshold > 0) {
      const data = { credits_remaining: toCredits(balance), threshold: toCredits(lowThreshold) };
      await publishOne('credits.low', moved, data, session);
    }
    if (!before.depleted && balance <= 0) {
      await publishOne('credits.depleted', moved, { credits_remaining: 0 }, session);
    }
  };
}
