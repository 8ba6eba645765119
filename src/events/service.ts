import { randomUUID } from 'node:crypto';
import type { ClientSession, Connection } from 'mongoose';
import { GatewayError } from '../errors.ts';
import { checkStorableId } from '../ids.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { latestElection } from '../mongo/elections.ts';
import type { Logger } from '../options/options.ts';
import { inPublishSpan } from '../tracing/event-spans.ts';
import { beginToStore, boundPublication } from './bounded-publication.ts';
import type { Catalogue } from './catalogue/catalogue-from-openapi.ts';
import { createEnvelope } from './envelope.ts';
import type { OwnerModel } from './model.ts';
import { type EventInput, type PublishedEvent, type PublishOptions, toNewEvent } from './publication.ts';
import type { Outbox } from './store/outbox.ts';
import type { SettleSubscribers } from './store/settle-subscribers.ts';
import type {
  AddressedEvent,
  EventSubscribers,
  HeldEvent,
  LeasedEvent,
  NewEvent,
  StoredEvent,
} from './store/stored-event.ts';
import { createOpenTransactions } from './transactions/open-transactions.ts';
import { createMajorityCheck, requireOwnClient } from './transactions/session-checks.ts';
import { createTransactions } from './transactions/transactions.ts';

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
