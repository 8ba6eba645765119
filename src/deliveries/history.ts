import type { components } from '../api.d.ts';
import { GatewayError, refuse } from '../errors.ts';
import type { StoredEvent } from '../events/outbox.ts';
import { checkUserId, firstId, isId, timeOf } from '../ids.ts';
import { durableCollection } from '../mongo/collection.ts';
import { createReadConfirmed } from '../mongo/confirmed-reads.ts';
import { checkPage, checkTimes, type Page, pageLimit } from '../mongo/list-page.ts';
import { adviceFor } from './failures.ts';
import {
  type AttemptRecord,
  type DeliveryDocument,
  type DeliveryModel,
  type DeliveryState,
  deliveryStates,
} from './model.ts';
import { delayAfter } from './retry.ts';
import { shownHeaders } from './send.ts';

/** A page of deliveries. */
export interface DeliveryList {
  readonly deliveries: ListedDelivery[];
  readonly hasMore: boolean;
  /** The id that the next page follows, if that is not the last delivery of this page. */
  readonly nextAfter?: string;
}

/** The deliveries of an account that are still stored. */
export interface DeliveryHistory {
  /**
   * Newest first.
   * @throws GatewayError `invalid_value`
   */
  list(userId: string, page?: DeliveryPage): Promise<DeliveryList>;
  /** @throws GatewayError `delivery_not_found`, also for a delivery of another account */
  get(userId: string, id: string): Promise<ShownDelivery>;
}

/** The same error for an unknown id, a malformed one and one of another account. */
export function deliveryNotFound(id: string): GatewayError {
  return new GatewayError(
    'delivery_not_found',
    `No delivery ${id} is in this account; GET /v1/deliveries lists those that are`,
    { param: 'id' },
  );
}

const shownFields = {
  eventId: 1,
  webhookId: 1,
  type: 1,
  test: 1,
  state: 1,
  reason: 1,
  maxAttempts: 1,
  dueAt: 1,
  createdAt: 1,
  endedAt: 1,
  inFlight: {
    $or: [
      { $and: [{ $ne: ['$lease', null] }, { $gt: ['$claimableAt', '$$NOW'] }] },
      { $gt: [{ $ifNull: ['$manual.until', new Date(0)] }, '$$NOW'] },
    ],
  },
} as const;

const listedFields = {
  ...shownFields,
  'attempts.number': 1,
  'attempts.manual': 1,
  'attempts.startedAt': 1,
  'attempts.durationMs': 1,
  'attempts.status': 1,
  'attempts.code': 1,
} as const;

export interface IdRange {
  readonly $gte: string;
  readonly $lt?: string;
  readonly $eq?: string;
}

/** Deliveries that are not stored yet, derived from their event: their first attempt has not begun, or has no outcome yet. */
export interface DerivedDeliveries {
  /** `null` if it is stored or does not exist. */
  find(userId: string, id: string): Promise<ShownDelivery | null>;
  /** The same by a confirmed read, after a usual read has found none: `null` is certain. @throws TimeoutError if it cannot be confirmed */
  findConfirmed(userId: string, id: string): Promise<ShownDelivery | null>;
  /** The event of the delivery; `null` if its fan-out is done or it does not exist. */
  eventOf(userId: string, id: string): Promise<StoredEvent | null>;
  /** At least `limit` deliveries of a page if there are as many. Reads a bounded number of events. */
  list(userId: string, page: DeliveryPage, range: IdRange, limit: number): Promise<DerivedList>;
}

export interface DerivedList {
  /** Newest first. */
  readonly deliveries: ShownDelivery[];
  /** All deliveries from this millisecond on are found; '' if there are no older ones. */
  readonly time: string;
}

export function createDeliveryHistory(
  model: DeliveryModel,
  derivedDeliveries: Pick<DerivedDeliveries, 'find' | 'findConfirmed' | 'list'>,
): DeliveryHistory {
  const collection = durableCollection(model);
  const readConfirmed = createReadConfirmed(collection);
  const presentTypes = createPresentTypes(model);

  return {
    async list(userId, page = {}) {
      checkUserId(userId);
      checkDeliveryPage(page);
      const { limit = pageLimit } = page;
      // read first: the queries find what is stored in between
      const [{ deliveries: waiting, time }, queries] = await Promise.all([
        derivedDeliveries.list(userId, page, idRange(page), limit + 1),
        queriesFor(userId, page, presentTypes),
      ]);
      const answers = await Promise.all(
        queries.map(({ filter, hint }) =>
          collection
            .find<ListedDelivery>(filter, { projection: listedFields, hint })
            .sort({ _id: -1 })
            .limit(limit + 1)
            .toArray(),
        ),
      );
      const stored = answers.flat();
      const storedIds = new Set(stored.map(({ _id }) => _id));
      const all = [...stored, ...waiting.filter(({ _id }) => !storedIds.has(_id))];
      // below this time, deliveries that are not stored yet may be missing
      const deliveries = all.filter(({ _id }) => timeOf(_id) >= time);
      if (answers.length > 1 || waiting.length > 0) deliveries.sort((a, b) => (a._id < b._id ? 1 : -1));
      if (deliveries.length > limit || time === '') {
        return { deliveries: deliveries.slice(0, limit), hasMore: deliveries.length > limit };
      }
      return { deliveries, hasMore: true, nextAfter: `dlv_${time}${'0'.repeat(16)}` };
    },

    async get(userId, id) {
      checkUserId(userId);
      const projection = { ...shownFields, attempts: 1 };
      const readStored = () => collection.findOne<ShownDelivery>({ _id: id, userId }, { projection });
      // the second read finds a delivery that is stored in between
      const read = async () => (await readStored()) ?? (await derivedDeliveries.find(userId, id)) ?? readStored();
      if (!isId('dlv', id)) throw deliveryNotFound(id);
      const delivery = (await readConfirmed(id, read)) ?? (await derivedDeliveries.findConfirmed(userId, id));
      if (!delivery) throw deliveryNotFound(id);
      return delivery;
    },
  };
}

/** Which deliveries, and which page of them. */
export interface DeliveryPage extends Page {
  readonly webhookId?: string;
  readonly eventId?: string;
  readonly type?: string;
  readonly state?: DeliveryState;
  /** Only of events published at this moment or later. */
  readonly since?: Date;
  /** Only of events published before this moment. */
  readonly until?: Date;
}

/** A delivery in a list, without the responses. */
export type ListedDelivery = Pick<
  DeliveryDocument,
  | '_id'
  | 'eventId'
  | 'webhookId'
  | 'type'
  | 'test'
  | 'state'
  | 'reason'
  | 'maxAttempts'
  | 'dueAt'
  | 'createdAt'
  | 'endedAt'
> & {
  readonly attempts: readonly Omit<AttemptRecord, 'response'>[];
  /** Whether an attempt is under way, by the database's clock. */
  readonly inFlight: boolean;
};

/** A delivery with its responses. */
export type ShownDelivery = ListedDelivery & Pick<DeliveryDocument, 'attempts'>;

/** @throws GatewayError `invalid_value` */
function checkDeliveryPage(page: DeliveryPage): void {
  const { webhookId, eventId, since, until } = page;
  checkPage(page, 'dlv');
  if (webhookId !== undefined && !isId('wh', webhookId)) {
    refuse('invalid_value', 'webhook_id', 'must be the id of a webhook');
  }
  if (eventId !== undefined && !isId('evt', eventId)) {
    refuse('invalid_value', 'event_id', 'must be the id of an event');
  }
  checkTimes({ since, until });
}

/** The bounds of the ids on a page: ids sort by the time of their event. */
function idRange({ since, until, after }: DeliveryPage): { $gte: string; $lt?: string } {
  const idAt = (moment: Date) => firstId('dlv', Math.max(0, moment.getTime()));
  const before = [after, until && idAt(until)].filter((bound) => bound !== undefined).sort();
  return { $gte: since ? idAt(since) : 'dlv_', ...(before[0] !== undefined && { $lt: before[0] }) };
}

/** The account or the webhook whose deliveries are listed. */
export type Owner = { readonly userId: string } | { readonly webhookId: string };

/**
 * Reads the event types of the owner's deliveries. The indexes have owner, type and state before the id. If a query names all
 * types and states, MongoDB reads that many ranges of the index at once and merges them by id, so every filter finds its
 * page in the index. This way one index for accounts and one for webhooks serve every combination; each index costs writes.
 */
export type PresentTypes = (owner: Owner) => Promise<string[]>;

/** MongoDB merges this many ranges at most; it would sort more of them in memory (internalQueryMaxScansToExplode). */
const maxRanges = 200;

/** Skips through the index, one step for each type. */
export function createPresentTypes(model: DeliveryModel): PresentTypes {
  const collection = durableCollection(model);
  return (owner) => collection.distinct('type', owner);
}

/** A query that its index answers in the order of ids. */
interface IndexedQuery {
  readonly filter: object;
  readonly hint: string;
}

/** The queries whose results together are a page: one, unless there are unusually many types. */
export async function queriesFor(
  userId: string,
  page: DeliveryPage,
  presentTypes: PresentTypes,
): Promise<IndexedQuery[]> {
  const { webhookId, eventId, type, state } = page;
  const common = { userId, _id: idRange(page), ...(webhookId !== undefined && { webhookId }) };
  const states = state === undefined ? deliveryStates : [state];
  if (eventId !== undefined) {
    const filter = { ...common, eventId, state: { $in: [...states] }, ...(type !== undefined && { type }) };
    return [{ filter, hint: 'eventDeliveries' }];
  }
  const owner = webhookId === undefined ? { userId } : { webhookId };
  const types = type === undefined ? await presentTypes(owner) : [type];
  const groups = types.length * states.length > maxRanges ? states.map((single) => [single]) : [states];
  const hint = webhookId === undefined ? 'ofUser' : 'ofWebhook';
  return groups.map((group) => ({ filter: { ...common, type: { $in: types }, state: { $in: [...group] } }, hint }));
}

type Schemas = components['schemas'];

const byStart = (a: Pick<AttemptRecord, 'startedAt'>, b: Pick<AttemptRecord, 'startedAt'>) =>
  a.startedAt.getTime() - b.startedAt.getTime();

/** A delivery in the API's lists. */
export function toSummaryBody(delivery: ListedDelivery): Schemas['DeliverySummary'] {
  const { _id, eventId, webhookId, type, test, state, reason, maxAttempts, dueAt, createdAt, endedAt } = delivery;
  const last = [...delivery.attempts].sort(byStart).at(-1);
  return {
    id: _id,
    event_id: eventId,
    webhook_id: webhookId,
    type,
    test,
    state,
    reason: reason ?? null,
    attempts_made: delivery.attempts.filter(({ manual }) => !manual).length,
    max_attempts: maxAttempts,
    next_attempt_at: state === 'pending' ? dueAt.toISOString() : null,
    in_flight: delivery.inFlight,
    last_status: last?.status ?? null,
    last_code: last?.code ?? null,
    created_at: createdAt.toISOString(),
    ended_at: state === 'pending' ? null : (endedAt?.toISOString() ?? null),
  };
}

/** What a failure means, and what to do about it. */
export function explain(code: string): string {
  const { meaning, remedy } = adviceFor(code);
  return `${meaning} ${remedy}`;
}

function toAttemptBody(
  attempt: AttemptRecord,
  { eventId, test }: ShownDelivery,
  userAgent: string,
): Schemas['DeliveryAttempt'] {
  const { number, startedAt, durationMs, status, code, retryAfter, location, response } = attempt;
  return {
    number: number ?? null,
    manual: attempt.manual === true,
    started_at: startedAt.toISOString(),
    duration_ms: durationMs,
    status: status ?? null,
    code: code ?? null,
    explanation: code === undefined ? null : explain(code),
    request_headers: shownHeaders({ eventId, startedAt, test, userAgent }),
    retry_after: retryAfter ?? null,
    location: location ?? null,
    response: response ?? '',
  };
}

/** The remaining attempts and their times, if each of them fails at once. */
function scheduleOf(delivery: ShownDelivery, retryDelays: readonly number[]): Schemas['ScheduledAttempt'][] {
  if (delivery.state !== 'pending') return [];
  const attemptsMade = delivery.attempts.filter(({ manual }) => !manual).length;
  const schedule: Schemas['ScheduledAttempt'][] = [];
  let due = delivery.dueAt.getTime();
  for (let number = attemptsMade + 1; number <= delivery.maxAttempts; number += 1) {
    schedule.push({ number, due_at: new Date(due).toISOString() });
    due += delayAfter(number, retryDelays);
  }
  return schedule;
}

/** What the details of a delivery show beside the delivery itself. */
export interface DeliveryContext {
  /** The webhook's present URL; `null` if the webhook is gone. */
  readonly url: string | null;
  /** `null` if the event is gone. */
  readonly body: Buffer | null;
  readonly userAgent: string;
  readonly retryDelays: readonly number[];
}

/** The details of one delivery in the API. */
export function toDetailsBody(
  delivery: ShownDelivery,
  { url, body, userAgent, retryDelays }: DeliveryContext,
): Schemas['DeliveryDetails'] {
  return {
    ...toSummaryBody(delivery),
    url,
    body: body?.toString('utf8') ?? '',
    attempts: [...delivery.attempts].sort(byStart).map((attempt) => toAttemptBody(attempt, delivery, userAgent)),
    schedule: scheduleOf(delivery, retryDelays),
  };
}

/** A delivery as a host's own code reads it. The attempts have the receiver's responses only where one delivery is read. */
export type Delivery<Stored = ListedDelivery> = Omit<Stored, '_id'> & {
  /** `dlv_…` */
  readonly id: string;
};

/** The deliveries of any account, for a host's own code. */
export interface DeliveriesForHosts {
  /**
   * Newest first.
   * @throws GatewayError `invalid_value`
   */
  list(
    userId: string,
    page?: DeliveryPage,
  ): Promise<{
    readonly deliveries: Delivery[];
    readonly hasMore: boolean;
    /** What the next page's `after` is, if that is not the id of the last delivery of this page. */
    readonly nextAfter?: string;
  }>;
  /** @throws GatewayError `delivery_not_found`, also for a delivery of another account */
  get(userId: string, id: string): Promise<Delivery<ShownDelivery>>;
}

const toDelivery = <Stored extends ListedDelivery>({ _id: id, ...delivery }: Stored) => ({ id, ...delivery });

/** The history of deliveries without what only the database knows them by. */
export function deliveriesForHosts(history: DeliveryHistory): DeliveriesForHosts {
  return {
    async list(userId, page) {
      const { deliveries, ...more } = await history.list(userId, page);
      return { deliveries: deliveries.map(toDelivery), ...more };
    },
    get: async (userId, id) => toDelivery(await history.get(userId, id)),
  };
}
