import type { ClientSession, Connection } from 'mongoose';
import { GatewayError } from '../errors.ts';
import type { Logger } from '../options.ts';
import type { Catalogue } from './catalogue.ts';
import { createEnvelope } from './envelope.ts';
import type { EventModel, OwnerModel } from './model.ts';
import { createOpenTransactions } from './open-transactions.ts';
import { createOutbox, type NewEvent, type StoredEvent } from './outbox.ts';
import {
  type Audience,
  checkText,
  type EventInput,
  type PublishedEvent,
  type PublishOptions,
  toNewEvent,
} from './publication.ts';
import { createTransactions } from './transactions.ts';
import { isUncertain, publishUnconfirmed } from './unconfirmed.ts';
import { createMajorityCheck } from './write-concern.ts';

export interface EventServiceDeps {
  readonly connection: Connection;
  readonly events: EventModel;
  /** Who has transactions open. */
  readonly owners: OwnerModel;
  readonly catalogue: Pick<Catalogue, 'validate' | 'example'>;
  readonly subscribers: (userId: string, type: string, session?: ClientSession) => Promise<Audience>;
  /** Makes the event's deliveries. Doing it twice does nothing the second time. */
  readonly fanOut: (event: StoredEvent) => Promise<void>;
  readonly logger: Logger;
  /** How long the transactions of a process that has died may be in the way. Milliseconds. @default 5_000 */
  readonly transactionLease?: number;
}

export interface EventService {
  /** Builds the indexes. */
  init(): Promise<void>;
  /**
   * Stores the event and starts its deliveries. Nothing is stored unless it returns, or throws `publish_unconfirmed`.
   * @throws GatewayError `unknown_event_type`, `invalid_event_data`, `invalid_value`, `idempotency_conflict`,
   *   `weak_write_concern`, or `publish_unconfirmed` with `eventId` and `idempotencyKey` in its details
   */
  publish(input: EventInput, options?: PublishOptions): Promise<PublishedEvent>;
  /** Publishes the type's example, about this account, to one webhook, marked as a test: one attempt. */
  publishTest(target: { userId: string; type: string; webhookId: string }): Promise<PublishedEvent>;
  /**
   * Runs `fn` in a transaction (majority, journaled, snapshot), again when the database asks for it, and starts the
   * deliveries of what it published right after the commit.
   */
  transaction<T>(fn: (session: ClientSession) => Promise<T>): Promise<T>;
  /** To be called when no more transactions are run. */
  close(): Promise<void>;
}

/** What this package can do with events: publish them, alone or with a caller's own writes. */
export function createEventService(deps: EventServiceDeps): EventService {
  const { catalogue, subscribers, fanOut, owners, logger, transactionLease: lease } = deps;
  const outbox = createOutbox(deps.events);
  const requireMajority = createMajorityCheck(deps.connection);
  const open = createOpenTransactions({ owners, logger, ...(lease !== undefined && { lease }) });
  const transactions = createTransactions(deps.connection, open, startDeliveries);

  /** The event is safe by now: should this fail, a worker's sweep takes over. */
  async function startDeliveries(event: StoredEvent): Promise<void> {
    try {
      await fanOut(event);
    } catch (error) {
      logger.warn('fan-out put off to the next sweep', { eventId: event._id, reason: String(error) });
    }
  }

  async function write(event: NewEvent, session?: ClientSession): Promise<StoredEvent> {
    try {
      return await outbox.store(event, session);
    } catch (error) {
      // in a transaction it is the caller's driver that retries, by the error's labels
      if (session?.inTransaction() || !isUncertain(error)) throw error;
      throw publishUnconfirmed(event._id, event.idempotencyKey, error);
    }
  }

  async function record(event: NewEvent, data: unknown, session?: ClientSession): Promise<PublishedEvent> {
    const stored = await write(event, session);
    if (stored.contentHash !== event.contentHash) {
      throw new GatewayError(
        'idempotency_conflict',
        `idempotencyKey: '${event.idempotencyKey}' was used for ${stored._id}, whose type or data differ`,
        { param: 'idempotencyKey' },
      );
    }
    if (stored.fanOut === 'pending') {
      if (session?.inTransaction()) transactions.publishedUnder(session, stored);
      else await startDeliveries(stored);
    }
    const { _id: id, type, created, idempotencyKey } = stored;
    return { id, type, created: created.toISOString(), data, idempotencyKey };
  }

  return {
    async init() {
      await Promise.all([outbox.init(), owners.createIndexes()]);
    },
    async publish({ type, userId, data }, { session, idempotencyKey } = {}) {
      checkText('userId', userId);
      if (idempotencyKey !== undefined) checkText('idempotencyKey', idempotencyKey);
      catalogue.validate(type, data);
      // serialised before anything is awaited: what the caller does to `data` from here on changes nothing
      const envelope = createEnvelope(type, data, Date.now());
      if (session) await requireMajority(session);
      const audience = await subscribers(userId, type, session);
      return record(toNewEvent(envelope, userId, audience, { idempotencyKey, test: false }), data, session);
    },
    async publishTest({ userId, type, webhookId }) {
      const example = catalogue.example(type);
      const data = 'user_id' in example ? { ...example, user_id: userId } : example;
      const audience = { targets: [webhookId], skipped: [] };
      return record(toNewEvent(createEnvelope(type, data, Date.now()), userId, audience, { test: true }), data);
    },
    transaction: transactions.run,
    close: open.close,
  };
}
