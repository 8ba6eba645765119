import { checkUserId, isId } from '../ids.ts';
import { durableCollection } from '../mongo/collection.ts';
import { confirmAbsent } from '../mongo/confirmed-reads.ts';
import type { RunInTransaction } from '../mongo/transaction.ts';
import { toRecord } from './api-key.ts';
import type { KeyRecord } from './authentication/key-cache.ts';
import type { PublishKeyEvent } from './key-events.ts';
import type { KeyModel } from './model.ts';

export interface RevokeDeps {
  readonly keys: KeyModel;
  readonly publish: PublishKeyEvent;
  readonly transaction: RunInTransaction;
  /** Called with each key that is revoked now. */
  readonly onRevoked: (id: string, record: KeyRecord) => void;
}

/**
 * Revokes a key and publishes `api_key.revoked`, once: in this process at once, in every other process within a second.
 * @param userId the account that the key must belong to. @default any
 * @returns whether there was a key that was not revoked yet
 */
export type Revoke = (id: string, userId?: string) => Promise<boolean>;

export function createRevoke({ keys, publish, transaction, onRevoked }: RevokeDeps): Revoke {
  const revocation = [{ $set: { revokedAt: { $ifNull: ['$revokedAt', '$$NOW'] } } }, { $unset: 'slot' }];
  const options = { updatePipeline: true, returnDocument: 'before' } as const;

  return async function revoke(id, userId) {
    if (!isId('key', id)) return false;
    if (userId !== undefined) checkUserId(userId);
    const filter = userId === undefined ? { _id: id } : { _id: id, userId };
    const before = await transaction(async (session) => {
      const key = await keys.findOneAndUpdate(filter, revocation, { ...options, ...(session && { session }) }).lean();
      if (key?.revokedAt === null) await publish('api_key.revoked', key, session);
      return key;
    });
    if (!before) {
      // a replaced primary may not know the key: make sure that it does not exist before saying so
      await confirmAbsent(durableCollection(keys), filter);
      return false;
    }
    onRevoked(id, toRecord(before, false));
    return before.revokedAt === null;
  };
}
