import { createBatcher } from '../../mongo/batcher.ts';
import { fromNow } from '../../mongo/clock.ts';
import { insertOnly } from '../../mongo/collection.ts';
import { bareWrites } from '../../mongo/writes/bare-writes.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import type { DeliveryDocument, DeliveryModel } from '../model.ts';

/** Deliveries in one write. */
const maxSize = 500;
/** Retries in one write: the server plans and parses a statement for each. */
const retriesMaxSize = 100;
const concurrency = 2;
/** How long the outcome of an attempt waits for others; if the process dies meanwhile, the attempt is made again. Milliseconds. */
const maxDelay = 5;

/** A delivery whose first attempt has failed. */
interface Retry {
  readonly document: DeliveryDocument;
  /** Milliseconds. */
  readonly retryIn: number;
}

/** Inserts deliveries, many in one write. A delivery that is stored already stays as it is. */
export interface InsertDeliveries {
  /** Resolves with whether the delivery is new. */
  insert(document: DeliveryDocument): Promise<boolean>;
  /** The same for a delivery whose next attempt is due in `retryIn` ms. */
  insertRetry(retry: Retry): Promise<boolean>;
}

type InsertResult = { readonly isNew: boolean } | { readonly error: unknown };

/** Inserts it, unless it exists, as due in `retryIn` ms by the database's own clock, so that no attempt is early. */
function toUpsert({ document, retryIn }: Retry) {
  const due = fromNow(retryIn);
  const u = insertOnly(document, { dueAt: due, claimableAt: due }, 'eventId');
  return { q: { _id: document._id }, u, upsert: true };
}

export function createInsertDeliveries(
  deliveries: DeliveryModel,
  onInserted: (deliveries: number) => void = () => {},
): InsertDeliveries {
  const { insertEach, updateEach } = bareWrites(deliveries);

  const inserts = createBatcher<DeliveryDocument, InsertResult>({
    maxSize,
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
    maxSize: retriesMaxSize,
    concurrency,
    maxDelay,
    async write(group) {
      const { inserted } = await updateEach(group.map(toUpsert));
      onInserted(group.length);
      return group.map((_, i) => inserted.has(i));
    },
  });

  return {
    async insert(document) {
      const outcome = await inserts.add(document);
      if ('error' in outcome) throw outcome.error;
      return outcome.isNew;
    },
    insertRetry: retries.add,
  };
}
