import { createBatcher } from '../mongo/batcher.ts';
import { fromNow } from '../mongo/clock.ts';
import { durableCollection, insertOnly } from '../mongo/collection.ts';
import { findConfirmed } from '../mongo/confirmed-reads.ts';
import { TimeoutError } from '../mongo/with-timeout.ts';
import { bareWrites, type UpdateStatement } from '../mongo/writes/bare-writes.ts';
import { isDuplicateKey } from '../mongo/writes/duplicate-key.ts';
import type { AttemptRecord, DeliveryDocument, DeliveryModel } from './model.ts';

/** Deliveries in one insert. */
const insertMaxSize = 500;
/** Retries, or changes, in one write: the server plans and parses a statement for each retry, and searches all changes for each. */
const updateMaxSize = 200;
const concurrency = 2;
/** How long the outcome of an attempt waits for others; if the process dies meanwhile, the attempt is made again. Milliseconds. */
const maxDelay = 5;

/** A delivery whose first attempt has failed. */
interface Retry {
  readonly document: DeliveryDocument;
  /** Milliseconds. */
  readonly retryIn: number;
}

/** A change of a claimed delivery, fenced by the claim's token. */
export interface Change {
  readonly deliveryId: string;
  readonly token: string;
  /** Changes of one name set the same fields to the same values, so they share a statement. */
  readonly name: string;
  readonly set: Readonly<Record<string, unknown>>;
  /** The attempt that the change also records. */
  readonly record?: AttemptRecord;
  /** Whether the delivery shows that this change was made before the lease ended. */
  readonly isMade: (delivery: DeliveryDocument) => boolean;
}

/** Writes deliveries, those of the same moment in one command. A delivery that cannot be written fails alone. */
export interface DeliveryWrites {
  /** Stores a delivery that is not stored yet. Resolves with whether it is new; one that is stored stays as it is. */
  insert(document: DeliveryDocument): Promise<boolean>;
  /** The same for one whose next attempt is due in `retryIn` ms, by the database's clock. */
  insertRetry(retry: Retry): Promise<boolean>;
  /** Changes a claimed delivery. Resolves to `false` if the claim was lost. */
  change(change: Change): Promise<boolean>;
}

type InsertResult = { readonly isNew: boolean } | { readonly error: unknown };

/** Inserts it, unless it exists, as due in `retryIn` ms by the database's own clock, so that no attempt is early. */
function toUpsert({ document, retryIn }: Retry): UpdateStatement {
  const due = fromNow(retryIn);
  const u = insertOnly(document, { dueAt: due, claimableAt: due }, 'eventId');
  return { q: { _id: document._id }, u, upsert: true };
}

/** Claims made in one write share their token: only token and delivery id together identify a claim. */
const storedPair = { $concat: ['$_id', ' ', '$lease.token'] } as const;

/** One statement for all changes of a name: the server plans and parses each statement anew. */
function toStatement(changes: readonly [Change, ...Change[]]): UpdateStatement {
  const pairs = { $literal: changes.map(({ deliveryId, token }) => `${deliveryId} ${token}`) };
  const records = { $literal: changes.map(({ record }) => record) };
  const ownRecord = { $arrayElemAt: [records, { $indexOfArray: [pairs, storedPair] }] };
  const [{ record, set }] = changes;
  return {
    q: { _id: { $in: changes.map(({ deliveryId }) => deliveryId) }, $expr: { $in: [storedPair, pairs] } },
    u: [{ $set: { ...(record && { attempts: { $concatArrays: ['$attempts', [ownRecord]] } }), ...set } }],
    multi: true,
  };
}

function toStatements(changes: readonly Change[]): UpdateStatement[] {
  const byName = new Map<string, [Change, ...Change[]]>();
  for (const change of changes) {
    const alike = byName.get(change.name);
    if (alike) alike.push(change);
    else byName.set(change.name, [change]);
  }
  return [...byName.values()].map(toStatement);
}

/** @param onInserted called with the number of deliveries that one command has inserted */
export function createDeliveryWrites(
  deliveries: DeliveryModel,
  onInserted: (deliveries: number) => void = () => {},
): DeliveryWrites {
  const collection = durableCollection(deliveries);
  const { insertEach, update, updateEach } = bareWrites(deliveries);

  const inserts = createBatcher<DeliveryDocument, InsertResult>({
    maxSize: insertMaxSize,
    concurrency,
    maxDelay,
    async write(documents) {
      const { failures } = await insertEach(documents);
      onInserted(documents.length);
      return documents.map((_, i) => {
        const error = failures.get(i);
        return error && !isDuplicateKey(error) ? { error } : { isNew: error === undefined };
      });
    },
  });

  const retries = createBatcher<Retry, boolean>({
    maxSize: updateMaxSize,
    concurrency,
    maxDelay,
    async write(group) {
      const { inserted } = await updateEach(group.map(toUpsert));
      onInserted(group.length);
      return group.map((_, i) => inserted.has(i));
    },
  });

  const changes = createBatcher<Change, boolean>({
    maxSize: updateMaxSize,
    maxDelay,
    async write(group) {
      const statements = toStatements(group);
      // deliveries that the first try has changed have no token any more; they are looked for below
      const matched = await update(statements).catch(() => update(statements));
      if (matched === group.length) return group.map(() => true);
      const documents = await findConfirmed(collection, { _id: { $in: group.map(({ deliveryId }) => deliveryId) } });
      const byId = new Map(documents.map((delivery) => [delivery._id, delivery]));
      return group.map(({ deliveryId, token, isMade }) => {
        const delivery = byId.get(deliveryId);
        // a replaced primary did not find it
        if (delivery?.lease?.token === token) throw new TimeoutError('a claimed delivery was not changed');
        return delivery !== undefined && isMade(delivery);
      });
    },
  });

  return {
    async insert(document) {
      const result = await inserts.add(document);
      if ('error' in result) throw result.error;
      return result.isNew;
    },
    insertRetry: retries.add,
    change: changes.add,
  };
}
