import type { Moment } from '../../mongo/clock.ts';
import type { EventDocument } from '../model.ts';

/** A stored event. It has its body if it was just written, or taken for its fan-out. */
export type StoredEvent = Omit<EventDocument, 'body'> & Partial<Pick<EventDocument, 'body'>>;

/** What finds an event: its id, and its account, by which a sharded cluster knows the shard. */
export type EventKey = Pick<EventDocument, '_id' | 'userId'>;

/** An event to write; the database adds the time of acceptance. */
export type NewEvent = Omit<EventDocument, 'acceptedAt' | 'fanOut' | 'fanOutAt' | 'fanOutLeases' | 'expiresAt'>;

/** The right to make the deliveries of an event, until it lapses. */
export interface FanOutLease {
  /** When it ends, by `performance.now()`; never later than by the database's clock. */
  readonly heldUntil: number;
  /** When it began. */
  readonly since: Moment;
  /** Whether it is the event's first lease: then only attempts of stored deliveries can have begun. */
  readonly isFirst: boolean;
}

/** An event, with this process's lease on its fan-out if it has one. */
export interface LeasedEvent {
  readonly event: StoredEvent;
  readonly lease: FanOutLease | null;
}

/** An event on whose fan-out this process has the lease. */
export interface HeldEvent extends LeasedEvent {
  readonly lease: FanOutLease;
}

/** An event that may be fanned out. */
export interface UnfinishedEvent extends EventKey {
  readonly targetCount: number;
  /** The size of the stored document. Bytes. */
  readonly size: number;
}

/** What decides which webhooks an event goes to. */
export interface AddressedEvent {
  readonly userId: string;
  readonly type: string;
  /** The envelope. */
  readonly body: Buffer;
}

/** The webhooks that are subscribed to an event. */
export interface EventSubscribers {
  readonly targets: readonly string[];
  readonly skipped: readonly string[];
  /** The latest election before they were read; absent if the read needs no proof. */
  readonly lookupElection?: string;
}
