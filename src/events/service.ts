import { createHash, randomUUID } from 'node:crypto';
import type { ClientSession, Connection } from 'mongoose';
import type { webhooks } from '../api.d.ts';
import { GatewayError } from '../errors.ts';
import { checkStorableId, newId } from '../ids.ts';
import { latestElection } from '../mongo/clock.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { TimeoutError } from '../mongo/periodic.ts';
import { databaseUnavailable, isUnavailable } from '../mongo/unavailable.ts';
import type { Logger } from '../options/options.ts';
import { inPublishSpan } from '../tracing/spans.ts';
import type { Catalogue } from './catalogue.ts';
import type { OwnerModel } from './model.ts';
import type {
  AddressedEvent,
  EventSubscribers,
  HeldEvent,
  LeasedEvent,
  NewEvent,
  Outbox,
  SettleSubscribers,
  StoredEvent,
} from './outbox.ts';
import { createMajorityCheck, createOpenTransactions, createTransactions, requireOwnClient } from './transactions.ts';

/** Makes the deliveries of events. Nothing here rejects: if something fails, a sweep takes over. */
export interface FanOuts {
  /**
   * Call it before an event is stored, so that the receivers of its first attempts are read meanwhile. `null` if this process
   * leaves the event to others.
   */
  prepare(event: Pick<NewEvent, 'type' | 'test' | 'userId' | 'targets'>): PreparedFanOut | null;
  /** A stored event waits for its fan-out. */
  wake(): void;
}

/** The fan-out of an event that is being stored. */
export interface PreparedFanOut {
  /** How long this process holds the event. Milliseconds. */
  readonly lease: number;
  /** Call it when the event is stored with that lease. */
  begin(held: HeldEvent): void;
}

export interface EventServiceDeps {
  readonly connection: Connection;
  readonly outbox: Outbox;
  /** The processes with open transactions. */
  readonly owners: OwnerModel;
  readonly catalogue: Pick<Catalogue, 'validate' | 'example'>;
  readonly subscribers: (event: AddressedEvent, session?: ClientSession) => Promise<EventSubscribers>;
  readonly settleSubscribers: SettleSubscribers;
  readonly fanOut: FanOuts;
  /** Limits how long a publication waits. @default as long as the driver waits */
  readonly database?: Pick<DatabaseAccess, 'whenAvailable' | 'bound'>;
  readonly logger: Logger;
  /** How long the transactions of a dead process may block others. Milliseconds. @default 5_000 */
  readonly transactionLease?: number;
}

export interface EventService {
  /**
   * Stores the event and starts its deliveries. If it throws anything but `publish_unconfirmed`, nothing is stored.
   * @throws GatewayError `unknown_event_type`, `invalid_event_data`, `invalid_value`, `idempotency_conflict`,
   *   `weak_write_concern`, `database_unavailable`, or `publish_unconfirmed` with `eventId` and `idempotencyKey` in its details
   */
  publish(input: EventInput, options?: PublishOptions): Promise<PublishedEvent>;
  /**
   * Stores a test event for one webhook of the account: the type's example, with the account as its `user_id`, unless there is
   * other `data`. The caller makes its one attempt while the lease lasts (milliseconds).
   * @throws GatewayError `unknown_event_type`, `invalid_event_data`, `database_unavailable`, or `publish_unconfirmed`
   */
  publishTest(event: {
    userId: string;
    type: string;
    data?: Record<string, unknown>;
    webhookId: string;
    lease: number;
  }): Promise<LeasedEvent>;
  /**
   * Runs `fn` in a transaction (majority, journaled, snapshot), again if the database asks for it, and wakes workers for the
   * published events right after the commit.
   * @param timeout after this time (milliseconds) an uncommitted transaction is undone. @default 120 s of tries
   */
  transaction<T>(fn: (session: ClientSession) => Promise<T>, timeout?: number): Promise<T>;
  /** Call it when no more transactions run. */
  close(): Promise<void>;
}

/** @throws GatewayError `idempotency_conflict` if `stored` is a different event with the same idempotency key */
function requireSame(event: NewEvent, stored: StoredEvent): void {
  if (stored.contentHash === event.contentHash) return;
  const message = `idempotencyKey: '${event.idempotencyKey}' was used for ${stored._id}, whose type or data differ`;
  throw new GatewayError('idempotency_conflict', message, { param: 'idempotencyKey' });
}

/** Publishes events, alone or together with a caller's own writes. */
export function createEventService(deps: EventServiceDeps): EventService {
  const { catalogue, outbox, subscribers, settleSubscribers, fanOut, owners, database, logger } = deps;
  const { transactionLease: lease } = deps;
  const requireMajority = createMajorityCheck(deps.connection);
  const open = createOpenTransactions({ owners, logger, ...(lease !== undefined && { lease }) });
  const transactions = createTransactions(deps.connection, open, () => fanOut.wake());

  /** Stores the event and starts its fan-out. Resolves with the event, or the one that already has its idempotency key. */
  async function store(event: NewEvent, until: number): Promise<StoredEvent> {
    const prepared = fanOut.prepare(event);
    const { event: stored, lease } = await outbox.store(event, prepared?.lease ?? 0, until);
    requireSame(event, stored);
    if (stored.fanOut === 'done') return stored;
    // an event is acknowledged only when its subscribers are certain
    const settled = await settleSubscribers(stored, event.body);
    if (prepared && lease) prepared.begin({ event: settled, lease });
    else fanOut.wake();
    return settled;
  }

  /** The same in a caller's transaction. There the caller's driver retries, by the labels of the error. */
  async function storeIn(session: ClientSession, event: NewEvent): Promise<StoredEvent> {
    const stored = await outbox.storeIn(session, event);
    requireSame(event, stored);
    if (stored.fanOut === 'pending') transactions.publishedUnder(session, stored);
    return stored;
  }

  function exampleOf(type: string, userId: string): Record<string, unknown> {
    const example = catalogue.example(type);
    return 'user_id' in example ? { ...example, user_id: userId } : example;
  }

  /** @param traceparent the span in which it is published */
  async function publish(
    { type, userId, data }: EventInput,
    { session, idempotencyKey = randomUUID() }: PublishOptions,
    traceparent: string | undefined,
  ): Promise<PublishedEvent> {
    checkStorableId('userId', userId);
    checkStorableId('idempotencyKey', idempotencyKey);
    catalogue.validate(type, data);
    // serialised before the first await, so that later changes of `data` have no effect
    const envelope = createEnvelope(type, data, Date.now());
    const addressed = { userId, type, body: envelope.body };
    const choices = { idempotencyKey, test: false, traceparent };
    const toEvent = (eventSubscribers: EventSubscribers) => toNewEvent(envelope, userId, eventSubscribers, choices);
    const toPublished = ({ _id: id, created }: StoredEvent): PublishedEvent => {
      return { id, type, created: created.toISOString(), data, idempotencyKey };
    };
    if (session) {
      requireOwnClient(deps.connection, session);
      await requireMajority(session);
    }
    if (session?.inTransaction()) {
      return toPublished(await storeIn(session, toEvent(await subscribers(addressed, session))));
    }
    return boundPublication(database, async (storing) => {
      const lookupElection = latestElection(deps.connection);
      const eventSubscribers = await subscribers(addressed, session);
      const event = beginToStore(storing, toEvent({ ...eventSubscribers, lookupElection }));
      return toPublished(await store(event, storing.until));
    });
  }

  return {
    publish: (input, options = {}) => inPublishSpan(input, (traceparent) => publish(input, options, traceparent)),
    async publishTest({ userId, type, webhookId, lease, data = exampleOf(type, userId) }) {
      catalogue.validate(type, data);
      const subscribers = { targets: [webhookId], skipped: [] };
      const choices = { idempotencyKey: randomUUID(), test: true, traceparent: undefined };
      const event = toNewEvent(createEnvelope(type, data, Date.now()), userId, subscribers, choices);
      return boundPublication(database, (storing) => outbox.store(beginToStore(storing, event), lease, storing.until));
    },
    transaction: transactions.run,
    close: open.close,
  };
}

/** The envelope, which every delivery of an event carries, and its bytes. */
export interface Envelope {
  readonly id: string;
  readonly type: string;
  readonly created: Date;
  readonly data: unknown;
  /** The envelope as JSON. It is serialised only here: these bytes are stored, signed and sent. */
  readonly body: Buffer;
  /** SHA-256 of type and data, in hexadecimal. */
  readonly contentHash: string;
}

/** The largest envelope: as much as the API accepts, and far below the 16 MB of a MongoDB document. Bytes. */
const bodyLimit = 256 * 1024;

/** JSON with sorted keys, so that equal content gives equal text. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}

/**
 * Makes the envelope of an event whose data has been checked.
 * @throws GatewayError `invalid_event_data` if it is larger than 256 KiB
 */
export function createEnvelope(type: string, data: unknown, now: number): Envelope {
  const id = newId('evt', now);
  const created = new Date(now);
  const body = Buffer.from(JSON.stringify({ id, type, created: created.toISOString(), data }));
  if (body.length > bodyLimit) {
    const message = `data: makes an event of ${body.length} bytes; the maximum is ${bodyLimit}. Send an id by which the receiver can fetch the rest`;
    throw new GatewayError('invalid_event_data', message, { param: 'data' });
  }
  return {
    id,
    type,
    created,
    data,
    body,
    contentHash: createHash('sha256')
      .update(`${type}\n${canonicalJson(data)}`)
      .digest('hex'),
  };
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

/** 122 random bits, from a UUID, because node draws the randomness of many UUIDs at once. */
function newDeliveryKey(): Buffer {
  return Buffer.from(randomUUID().replaceAll('-', ''), 'hex');
}

/** The document of an event. */
function toNewEvent(
  envelope: Envelope,
  userId: string,
  subscribers: EventSubscribers,
  {
    idempotencyKey,
    test,
    traceparent,
  }: { readonly idempotencyKey: string; readonly test: boolean; readonly traceparent: string | undefined },
): NewEvent {
  const { id, type, created, body, contentHash } = envelope;
  return {
    _id: id,
    userId,
    type,
    created,
    body,
    contentHash,
    targets: [...subscribers.targets],
    skipped: [...subscribers.skipped],
    ...(subscribers.lookupElection !== undefined && { lookupElection: subscribers.lookupElection }),
    test,
    ...(traceparent !== undefined && { traceparent }),
    idempotencyKey,
    deliveryKey: newDeliveryKey(),
  };
}

/** How long a publication waits for the database: less than a request may take, so that its response tells the result. Milliseconds. */
const longestPublication = 3_500;
/**
 * How long it may wait until its write starts, so that as much time is left for the answer. If writes started for publications
 * whose time is nearly over, a database that was too slow for a moment would answer every later one too late. Milliseconds.
 */
const longestTurn = longestPublication / 2;

/** The state of one publication. */
export interface Storing {
  /** Its writes must start before this time, by `performance.now()`. */
  readonly until: number;
  /** Set when the event is about to be stored. */
  event: NewEvent | undefined;
  /** Whether the publisher was told that nothing is stored. */
  isGivenUp: boolean;
}

/** @throws TimeoutError if it is too late: the publisher would not hear of this event, and publish it again */
function beginToStore(storing: Storing, event: NewEvent): NewEvent {
  if (storing.isGivenUp) throw new TimeoutError('the database answered after the publisher had stopped waiting');
  storing.event = event;
  return event;
}

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
 * @throws GatewayError `publish_unconfirmed` if the database fails after the write has started; `database_unavailable` if it
 *   fails before, when nothing can have been stored
 */
async function boundPublication<T>(
  database: Pick<DatabaseAccess, 'whenAvailable' | 'bound'> | undefined,
  publish: (storing: Storing) => Promise<T>,
): Promise<T> {
  await database?.whenAvailable();
  const until = database ? performance.now() + longestTurn : Number.POSITIVE_INFINITY;
  const storing: Storing = { until, event: undefined, isGivenUp: false };
  const published = publish(storing);
  try {
    return await (database?.bound(published, longestPublication) ?? published);
  } catch (error) {
    storing.isGivenUp = storing.event === undefined;
    if (!isUnavailable(error)) throw error;
    throw storing.event ? publishUnconfirmed(storing.event, error) : databaseUnavailable(error);
  }
}
