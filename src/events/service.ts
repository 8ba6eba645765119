import { createHash, randomUUID } from 'node:crypto';
import type { ClientSession, Connection } from 'mongoose';
import type { webhooks } from '../api.d.ts';
import { GatewayError } from '../errors.ts';
import { checkStorableId, checkUserId, newId } from '../ids.ts';
import { type Election, latestElection } from '../mongo/clock.ts';
import { durableCollection } from '../mongo/collection.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { TimeoutError } from '../mongo/periodic.ts';
import { databaseUnavailable, isUnavailable } from '../mongo/unavailable.ts';
import type { Logger } from '../options/options.ts';
import { inPublishSpan } from '../tracing/spans.ts';
import type { AddressedEvent, ReadSubscribers, ReadTargets, Subscribers } from '../webhooks/webhook.ts';
import type { Catalogue } from './catalogue.ts';
import type { OwnerModel } from './model.ts';
import {
  type HeldEvent,
  isProven,
  type NewEvent,
  notLookedUp,
  type Outbox,
  type SettleSubscribers,
  type StoredEvent,
  type WrittenEvent,
} from './outbox.ts';
import { createMajorityCheck, OpenTransactions, requireOwnClient, Transactions } from './transactions.ts';

/** Makes the deliveries of events. Nothing here rejects: if something fails, a sweep takes over. */
export interface FanOuts {
  /** Call it before an event is stored. `null` if this process leaves the event to others. */
  prepare(): PreparedFanOut | null;
  /** A stored event waits for its fan-out. */
  wake(): void;
}

/** The fan-out of an event that is being stored. */
export interface PreparedFanOut {
  /** How long this process holds the event. Milliseconds. */
  readonly lease: number;
  /**
   * Call it when the event is stored with that lease, and its subscribers are certain.
   * @param read its webhooks as the look-up of subscribers has read them, for first attempts that begin within 250 ms. Not if a replaced
   *   primary may have answered it. @default each attempt reads its webhook
   */
  begin(held: HeldEvent, read?: ReadTargets): void;
}

export interface EventServiceDeps {
  readonly connection: Connection;
  readonly outbox: Outbox;
  /** The processes with open transactions. */
  readonly owners: OwnerModel;
  readonly catalogue: Pick<Catalogue, 'validate' | 'example'>;
  readonly webhooks: {
    subscribers(event: AddressedEvent): Promise<ReadSubscribers>;
    /** What this process has found lately; `undefined` if it has not looked. */
    recentSubscribers(event: AddressedEvent): Subscribers | undefined;
    /** What a majority confirms. */
    confirmedSubscribers(event: AddressedEvent): Promise<Subscribers>;
    subscribersIn(session: ClientSession, event: AddressedEvent): Promise<Subscribers>;
  };
  readonly settleSubscribers: SettleSubscribers;
  readonly fanOut: FanOuts;
  /** Limits how long a publication waits. @default as long as the driver waits */
  readonly database?: Pick<DatabaseAccess, 'whenAvailable' | 'bound'>;
  readonly logger: Logger;
  /** How long the transactions of a dead process may block others. Milliseconds. @default 5_000 */
  readonly transactionLease?: number;
}

export type EventService = ReturnType<typeof createEventService>;

/** A test event for one webhook. */
export interface TestPublication {
  readonly userId: string;
  readonly type: string;
  /** @default the type's example, with the account as its `user_id` */
  readonly data?: Record<string, unknown>;
  readonly webhookId: string;
  /** How long this process holds it. Milliseconds. */
  readonly lease: number;
}

/** @throws GatewayError `idempotency_conflict` if `stored` is a different event with the same idempotency key */
function requireSame(event: EventDraft, stored: StoredEvent): void {
  if (stored.contentHash === event.contentHash) return;
  const message = `idempotencyKey: '${event.idempotencyKey}' was used for ${stored._id}, whose type or data differ`;
  throw new GatewayError('idempotency_conflict', message, { param: 'idempotencyKey' });
}

/** An example of a type's data, of this account. */
function exampleOf(catalogue: EventServiceDeps['catalogue'], type: string, userId: string): Record<string, unknown> {
  const example = catalogue.example(type);
  return 'user_id' in example ? { ...example, user_id: userId } : example;
}

/** The subscribers of an event as they were looked up. */
interface LookUp {
  readonly read: ReadSubscribers;
  /** The latest election that the driver knew when the look-up began. */
  readonly election: Election;
}

/** An event with its subscribers, which are not certain yet. */
interface AddressedDraft {
  readonly event: NewEvent;
  /** `null` if this process leaves the event to others. */
  readonly prepared: PreparedFanOut | null;
  /** Absent while the subscribers are still to be looked up. */
  readonly lookUp?: LookUp;
}

/** Fails a publication whose event is stored, whatever the reason, as unconfirmed: a sweep does what is left. */
function failUnconfirmed(error: unknown): never {
  if (isUnavailable(error)) throw error;
  throw new TimeoutError('the subscribers of a stored event could not be looked up', { cause: error });
}

/** Makes the functions that store an event for its subscribers; they resolve with it, or with the one that already has its idempotency key. */
function createStores(deps: EventServiceDeps, transactions: Transactions) {
  const { connection, outbox, webhooks, settleSubscribers, fanOut, database } = deps;

  async function lookUpSubscribers(event: AddressedEvent): Promise<LookUp> {
    const election = latestElection(connection);
    return { read: await webhooks.subscribers(event), election };
  }

  /** Gives the event the subscribers that this process has found lately, so that its write waits for no look-up; otherwise looks them up. */
  async function address(draft: EventDraft): Promise<AddressedDraft> {
    const prepared = fanOut.prepare();
    // what this process does not hold, another one might fan out before the look-up has ended
    const recent = prepared && webhooks.recentSubscribers(draft);
    if (recent) return { event: { ...recent, lookupElection: notLookedUp, ...draft }, prepared };
    const lookUp = await lookUpSubscribers(draft);
    const { targets, skipped } = lookUp.read;
    return { event: { targets, skipped, lookupElection: lookUp.election, ...draft }, prepared, lookUp };
  }

  /** Makes the subscribers of a stored event certain. Returns the webhooks, too, if their look-up was. */
  async function settle(
    event: NewEvent,
    { event: stored, writtenIn }: WrittenEvent,
    looking: Promise<LookUp | undefined> | undefined,
  ): Promise<{ readonly settled: StoredEvent; readonly read?: ReadSubscribers }> {
    if (writtenIn === undefined) return { settled: await settleSubscribers(stored, event.body) };
    const lookUp = await looking;
    const read = lookUp && isProven(lookUp.election, writtenIn) ? lookUp.read : undefined;
    const subscribers = read ?? (await webhooks.confirmedSubscribers(event));
    const settled = (await outbox.setSubscribers(stored, subscribers)) ?? (await settleSubscribers(stored, event.body));
    return { settled, ...(read && { read }) };
  }

  /** Stores the event, looks up its subscribers beside the write where that is still to be done, and starts its fan-out. */
  async function storeAddressed({ event, prepared, lookUp }: AddressedDraft, until: number): Promise<StoredEvent> {
    let looking: Promise<LookUp | undefined> | undefined = lookUp && Promise.resolve(lookUp);
    const beginLookUp = () => {
      // one that fails is no proof
      looking ??= lookUpSubscribers(event).catch(() => undefined);
    };
    const written = await outbox.store(event, prepared?.lease ?? 0, until, beginLookUp);
    requireSame(event, written.event);
    if (written.event.fanOut === 'done') return written.event;
    const { settled, read } = await settle(event, written, looking).catch(failUnconfirmed);
    const { lease } = written;
    if (prepared && lease) prepared.begin({ event: settled, lease }, read);
    else fanOut.wake();
    return settled;
  }

  return {
    /** An event is acknowledged only when its subscribers are certain. */
    store: (draft: EventDraft): Promise<StoredEvent> =>
      boundPublication(database, () => address(draft), storeAddressed),
    /** The same in a caller's transaction. There the caller's driver retries, by the labels of the error. */
    async storeIn(session: ClientSession, draft: EventDraft): Promise<StoredEvent> {
      const stored = await outbox.storeIn(session, { ...draft, ...(await webhooks.subscribersIn(session, draft)) });
      requireSame(draft, stored);
      if (stored.fanOut === 'pending') transactions.publishedUnder(session, stored);
      return stored;
    },
  };
}

/** Publishes events, alone or together with a caller's own writes. */
export function createEventService(deps: EventServiceDeps) {
  const { connection, catalogue, outbox, fanOut, database, logger, transactionLease: lease } = deps;
  const requireMajority = createMajorityCheck(connection);
  const owners = durableCollection(deps.owners);
  const open = new OpenTransactions({ connection, owners, logger, ...(lease !== undefined && { lease }) });
  const transactions = new Transactions(connection, open, () => fanOut.wake());
  const { store, storeIn } = createStores(deps, transactions);

  return {
    /**
     * Stores the event and starts its deliveries. If it throws anything but `publish_unconfirmed`, nothing is stored.
     * @throws GatewayError `unknown_event_type`, `invalid_event_data`, `invalid_value`, `idempotency_conflict`,
     *   `weak_write_concern`, `database_unavailable`, or `publish_unconfirmed` with `eventId` and `idempotencyKey` in its details
     */
    async publish(
      { type, userId, data }: EventInput,
      { session, idempotencyKey = randomUUID() }: PublishOptions = {},
    ): Promise<PublishedEvent> {
      return inPublishSpan({ type, userId }, async (traceparent) => {
        checkUserId(userId);
        checkStorableId('idempotencyKey', idempotencyKey);
        catalogue.validate(type, data);
        // serialised before the first await, so that later changes of `data` have no effect
        const content = createContent(type, data, Date.now());
        const traced = traceparent === undefined ? {} : { traceparent };
        const draft = { userId, idempotencyKey, test: false, ...content, ...traced };
        if (session) {
          requireOwnClient(connection, session);
          await requireMajority(session);
        }
        const stored = session?.inTransaction() ? storeIn(session, draft) : store(draft);
        const { _id: id, created } = await stored;
        return { id, type, created: created.toISOString(), data, idempotencyKey };
      });
    },
    /**
     * Stores a test event for one webhook of the account. The caller makes its one attempt while the lease lasts.
     * @throws GatewayError `unknown_event_type`, `invalid_event_data`, `database_unavailable`, or `publish_unconfirmed`
     */
    async publishTest({ userId, type, webhookId, lease, data = exampleOf(catalogue, type, userId) }: TestPublication) {
      catalogue.validate(type, data);
      const content = createContent(type, data, Date.now());
      const targets = [webhookId];
      const event = { ...content, userId, idempotencyKey: randomUUID(), test: true, targets, skipped: [] };
      const address = async () => ({ event });
      return boundPublication(database, address, (_, until) => outbox.store(event, lease, until));
    },
    transaction: transactions.run.bind(transactions),
    /** Call it when no more transactions run. */
    close: () => open.close(),
  };
}

/** The largest envelope: as much as the API accepts, and far below the 16 MB of a MongoDB document. Bytes. */
export const bodyLimit = 256 * 1024;

/** An event whose subscribers are not known yet. */
type EventDraft = Omit<NewEvent, 'targets' | 'skipped' | 'lookupElection'>;

/** What of an event does not depend on who publishes it, and how. */
type EventContent = Omit<EventDraft, 'userId' | 'idempotencyKey' | 'test' | 'traceparent'>;

/**
 * Makes the envelope of an event whose data has been checked, and what belongs to it. The envelope is serialised only here: these bytes
 * are stored, signed and sent.
 * @throws GatewayError `invalid_event_data` if the envelope is larger than 256 KiB
 */
function createContent(type: string, data: unknown, now: number): EventContent {
  const id = newId('evt', now);
  const created = new Date(now);
  const body = Buffer.from(JSON.stringify({ id, type, created: created.toISOString(), data }));
  if (body.length > bodyLimit) {
    const message = `data: makes an event of ${body.length} bytes; the maximum is ${bodyLimit}. Send an id by which the receiver can fetch the rest`;
    throw new GatewayError('invalid_event_data', message, { param: 'data' });
  }
  // its keys are sorted, so that equal data gives an equal hash
  const canonicalData = JSON.stringify(data, (_key, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
  const contentHash = createHash('sha256').update(`${type}\n${canonicalData}`).digest('hex');
  // 122 random bits, from a UUID, because node draws the randomness of many UUIDs at once
  const deliveryKey = Buffer.from(randomUUID().replaceAll('-', ''), 'hex');
  return { _id: id, type, created, body, contentHash, deliveryKey };
}

/** The gateway's own event types, and the data of each. */
type OwnData = {
  readonly [Type in keyof webhooks]: webhooks[Type]['post']['requestBody']['content']['application/json']['data'];
};

interface EventOf<Type extends string, Data> {
  /** One of the catalogue's types. */
  readonly type: Type;
  /** The account whose webhooks receive it. */
  readonly userId: string;
  /** The type's payload. */
  readonly data: Data;
}

/**
 * An event to publish.
 * @typeParam Custom the names of the option `eventTypes`. @default any name, with any data
 */
export type EventInput<Custom extends string = string> =
  | { [Type in keyof OwnData]: EventOf<Type, OwnData[Type]> }[keyof OwnData]
  | EventOf<Custom, unknown>;

/** A published event: the envelope that every receiver gets, and the key with which it can be published again. */
export interface PublishedEvent {
  readonly id: string;
  readonly type: string;
  /** ISO 8601, UTC. */
  readonly created: string;
  readonly data: unknown;
  readonly idempotencyKey: string;
}

/** How an event is published. */
export interface PublishOptions {
  /** Your session. In a transaction, the event is published if, and only if, the transaction commits. */
  readonly session?: ClientSession;
  /** Publishing again with the same key and content returns the first event. @default a generated key, which is returned */
  readonly idempotencyKey?: string;
}

/** How long a publication waits for the database: less than a request may take, so that its response tells the result. Milliseconds. */
const longestPublication = 3_500;
/**
 * How long it may wait until its write starts, so that as much time is left for the answer. If writes started for publications
 * whose time is nearly over, a database that was too slow for a moment would answer every later one too late. Milliseconds.
 */
const longestTurn = longestPublication / 2;

/** Names what the publisher needs to publish again without a second event. */
function publishUnconfirmed({ _id: eventId, idempotencyKey }: NewEvent, cause: unknown): GatewayError {
  return new GatewayError(
    'publish_unconfirmed',
    `the event ${eventId} may or may not have been stored; publish it again with idempotencyKey '${idempotencyKey}', which cannot double it`,
    { cause, headers: { 'retry-after': '1' }, details: { eventId, idempotencyKey } },
  );
}

/**
 * Limits how long a publication outside a transaction waits.
 * @param database without it, a publication waits as long as the driver waits
 * @param address completes the event before it is stored
 * @param store its writes must start before `until`, by `performance.now()`
 * @throws GatewayError `publish_unconfirmed` if the database fails after the write has started; `database_unavailable` if it
 *   fails before, when nothing can have been stored
 */
async function boundPublication<Addressed extends { readonly event: NewEvent }, T>(
  database: Pick<DatabaseAccess, 'whenAvailable' | 'bound'> | undefined,
  address: () => Promise<Addressed>,
  store: (addressed: Addressed, until: number) => Promise<T>,
): Promise<T> {
  await database?.whenAvailable();
  const until = database ? performance.now() + longestTurn : Number.POSITIVE_INFINITY;
  let storing: NewEvent | undefined;
  let isGivenUp = false;
  const published = address().then((addressed) => {
    // the publisher would not hear of this event, and publish it again
    if (isGivenUp) throw new TimeoutError('the database answered after the publisher had stopped waiting');
    storing = addressed.event;
    return store(addressed, until);
  });
  try {
    return await (database?.bound(published, longestPublication) ?? published);
  } catch (error) {
    isGivenUp = storing === undefined;
    if (!isUnavailable(error)) throw error;
    throw storing ? publishUnconfirmed(storing, error) : databaseUnavailable(error);
  }
}
