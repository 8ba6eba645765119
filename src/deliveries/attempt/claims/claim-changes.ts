import { createBatcher } from '../../../mongo/batcher.ts';
import { durableCollection } from '../../../mongo/collection.ts';
import { findConfirmed } from '../../../mongo/confirmed-reads.ts';
import { TimeoutError } from '../../../mongo/with-timeout.ts';
import { bareWrites, type UpdateStatement } from '../../../mongo/writes/bare-writes.ts';
import type { AttemptRecord, DeliveryDocument, DeliveryModel } from '../../model.ts';
import type { Claim } from './claim.ts';

/** Changes in one write: the server searches all of them for each. */
const maxSize = 200;
/** How long the outcome of an attempt waits for others; if the process dies meanwhile, the attempt is made again. Milliseconds. */
const maxDelay = 5;

/** A write to a claimed delivery, fenced by the claim's token. */
export interface Change {
  readonly claim: Claim;
  /** Changes of one name set the same fields to the same values, so they share a statement. */
  readonly name: string;
  readonly set: Readonly<Record<string, unknown>>;
  /** The attempt that the change also records. */
  readonly record?: AttemptRecord;
  /** Whether the delivery shows that this change was made before the lease ended. */
  readonly isMade: (delivery: DeliveryDocument) => boolean;
}

/** Claims made in one write share their token: only token and delivery id together identify a claim. */
const pairOf = ({ claim }: Change) => `${claim.delivery._id} ${claim.token}`;
const storedPair = { $concat: ['$_id', ' ', '$lease.token'] } as const;

/** One statement for all changes of a name: the server plans and parses each statement anew. */
function toStatement(changes: readonly [Change, ...Change[]]): UpdateStatement {
  const pairs = { $literal: changes.map(pairOf) };
  const records = { $literal: changes.map(({ record }) => record) };
  const ownRecord = { $arrayElemAt: [records, { $indexOfArray: [pairs, storedPair] }] };
  const [{ record, set }] = changes;
  return {
    q: { _id: { $in: changes.map(({ claim }) => claim.delivery._id) }, $expr: { $in: [storedPair, pairs] } },
    u: [{ $set: { ...(record && { attempts: { $concatArrays: ['$attempts', [ownRecord]] } }), ...set } }],
    multi: true,
  };
}

/** One statement for each name. */
function toStatements(changes: readonly Change[]): UpdateStatement[] {
  const byName = new Map<string, [Change, ...Change[]]>();
  for (const change of changes) {
    const alike = byName.get(change.name);
    if (alike) alike.push(change);
    else byName.set(change.name, [change]);
  }
  return [...byName.values()].map(toStatement);
}

/** Changes claimed deliveries, many in one write. Resolves to `false` if the claim was lost. */
export function createChangeClaimed(deliveries: DeliveryModel): (change: Change) => Promise<boolean> {
  const collection = durableCollection(deliveries);
  const { update } = bareWrites(deliveries);

  const changing = createBatcher<Change, boolean>({
    maxSize,
    maxDelay,
    async write(changes) {
      const updates = toStatements(changes);
      // deliveries that the first try has changed have no token any more; they are looked for below
      const matched = await update(updates).catch(() => update(updates));
      if (matched === changes.length) return changes.map(() => true);
      const ids = changes.map(({ claim }) => claim.delivery._id);
      const documents = await findConfirmed(collection, { _id: { $in: ids } });
      const byId = new Map(documents.map((delivery) => [delivery._id, delivery]));
      return changes.map(({ claim, isMade }) => {
        const delivery = byId.get(claim.delivery._id);
        // a replaced primary did not find it
        if (delivery?.lease?.token === claim.token) throw new TimeoutError('a claimed delivery was not changed');
        return delivery !== undefined && isMade(delivery);
      });
    },
  });

  return changing.add;
}
