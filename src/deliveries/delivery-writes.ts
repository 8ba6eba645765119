import { createBatcher } from '../mongo/batcher.ts';
import { fromNow } from '../mongo/clock.ts';
import { durableCollection, insertOnly } from '../mongo/collection.ts';
import { findConfirmed } from '../mongo/confirmed-reads.ts';
import { createPeriodic, type Periodic, TimeoutError } from '../mongo/periodic.ts';
import { bareWrites, isDuplicateKey, persist, type UpdateStatement } from '../mongo/writes.ts';
import type { Logger } from '../options/options.ts';
import type { AttemptRecord, DeliveryDocument, DeliveryModel } from './model.ts';

/** Deliveries in one insert. */
const insertMaxSize = 500;
/** Retries in one write: the server plans and parses a statement for each. */
const retriesMaxSize = 100;
/** Changes in one write: the server searches all of them for each. */
const changesMaxSize = 200;
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
    maxSize: retriesMaxSize,
    concurrency,
    maxDelay,
    async write(group) {
      const { inserted } = await updateEach(group.map(toUpsert));
      onInserted(group.length);
      return group.map((_, i) => inserted.has(i));
    },
  });

  const changes = createBatcher<Change, boolean>({
    maxSize: changesMaxSize,
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

/** How often the first attempts that take long are looked for. Milliseconds. */
const lookInterval = 50;
/** After this time, a first attempt that has not ended is stored as claimed. Milliseconds. */
const usualStoreAfter = 250;

export interface FirstWritesOptions {
  /** After this time, a first attempt that has not ended is stored as claimed. Milliseconds. @default 250 */
  readonly storeAfter?: number;
  readonly logger: Logger;
  /** Aborted when the gateway has closed. @default never */
  readonly closed?: AbortSignal;
}

interface Entry {
  readonly since: number;
  /** Whether the outcome of its attempt is being stored. */
  hasOutcome: boolean;
  /** Set while it is being stored as claimed; resolves with whether it was. Never rejects. */
  storing: Promise<boolean> | undefined;
  readonly settle: (failure?: Error) => void;
}

/**
 * The deliveries that are not stored yet, by the claims of their first attempts. Makes sure that one write of each is the first:
 * its outcome, or, if the attempt takes long, the delivery as claimed.
 * @typeParam Claim the claim of a first attempt
 */
export class FirstWrites<Claim> {
  readonly #storeClaimed: (claim: Claim) => Promise<boolean>;
  readonly #options: FirstWritesOptions;
  /** The oldest first. */
  readonly #entries = new Map<Claim, Entry>();
  readonly #looking: Periodic;

  /** @param storeClaimed stores a delivery as claimed; resolves with whether it is new. May be called again. */
  constructor(storeClaimed: (claim: Claim) => Promise<boolean>, options: FirstWritesOptions) {
    this.#storeClaimed = storeClaimed;
    this.#options = options;
    this.#looking = createPeriodic({
      name: 'storing attempts that take long',
      task: () => this.#storeSlow(),
      interval: lookInterval,
      initialDelay: lookInterval,
      logger: options.logger,
    });
  }

  /** Resolves when the delivery is stored; rejects if this process will not store it. */
  add(claim: Claim): Promise<void> {
    const whenStored = new Promise<void>((resolve, reject) => {
      const settle = (failure?: Error) => (failure ? reject(failure) : resolve());
      this.#entries.set(claim, { since: performance.now(), hasOutcome: false, storing: undefined, settle });
    });
    this.#looking.start();
    return whenStored;
  }

  /** Resolves with whether this was the delivery's first write. If not, the claim's token decides. */
  async write(claim: Claim, write: () => Promise<boolean>): Promise<boolean> {
    const entry = this.#entries.get(claim);
    if (!entry) return false;
    entry.hasOutcome = true;
    const isNew = !(await entry.storing) && (await write());
    this.#settle(claim, entry);
    return isNew;
  }

  /** The delivery is not stored here, if it is not stored by now. */
  drop(claim: Claim): void {
    const entry = this.#entries.get(claim);
    if (entry) this.#settle(claim, entry, new Error('the delivery was not stored'));
  }

  #settle(claim: Claim, entry: Entry, failure?: Error): void {
    entry.settle(failure);
    this.#entries.delete(claim);
    if (this.#entries.size === 0) void this.#looking.stop();
  }

  #storeSlow(): void {
    const before = performance.now() - (this.#options.storeAfter ?? usualStoreAfter);
    for (const [claim, entry] of this.#entries) {
      if (entry.since > before) return;
      entry.storing ??= this.#store(claim, entry);
    }
  }

  /** If this fails, the delivery is stored with its outcome. */
  async #store(claim: Claim, entry: Entry): Promise<boolean> {
    try {
      const isNew = await persist(async () => !entry.hasOutcome && (await this.#storeClaimed(claim)), this.#options);
      if (!entry.hasOutcome) this.#settle(claim, entry);
      return isNew;
    } catch {
      return false;
    }
  }
}
