import { GatewayError } from '../errors.ts';
import { checkUserId, firstId, isId, timeOf } from '../ids.ts';
import { durableCollection } from '../mongo/collection.ts';
import { createReadConfirmed } from '../mongo/confirmed-reads.ts';
import type { AttemptRecord, DeliveryDocument, DeliveryModel, DeliveryState } from './model.ts';
import { createPresentTypes, mostRanges, type PresentTypes } from './present-types.ts';
import type { Unstored } from './unstored.ts';

/** Which deliveries, and which page of them. */
export interface DeliveryPage {
  readonly webhookId?: string;
  readonly eventId?: string;
  readonly type?: string;
  readonly state?: DeliveryState;
  /** Of events published at this moment or later. */
  readonly since?: Date;
  /** Of events published before this moment. */
  readonly until?: Date;
  /** 1 to 100. @default 100 */
  readonly limit?: number;
  /** The id that the page follows; it need not exist any more. */
  readonly after?: string;
}

/** A delivery as it is listed: without what was answered. */
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
  /** Whether an attempt is being made, by the database's clock. */
  readonly inFlight: boolean;
};

/** A delivery as it is shown by itself. */
export type ShownDelivery = ListedDelivery & Pick<DeliveryDocument, 'attempts'>;

/** A page of deliveries. */
export interface DeliveryList {
  readonly deliveries: ListedDelivery[];
  readonly hasMore: boolean;
  /** What the next page follows, where that is not the last delivery of this one. */
  readonly nextAfter?: string;
}

/** The deliveries of an account, as long as they are kept. */
export interface DeliveryHistory {
  /**
   * Newest first.
   * @throws GatewayError `invalid_value`
   */
  list(userId: string, page?: DeliveryPage): Promise<DeliveryList>;
  /** @throws GatewayError `delivery_not_found`, also for another account's */
  get(userId: string, id: string): Promise<ShownDelivery>;
}

/** The same answer for an unknown id, a malformed one and another account's. */
export function deliveryNotFound(id: string): GatewayError {
  return new GatewayError('delivery_not_found', `No delivery ${id} in this account`, { param: 'id' });
}

const pageLimit = 100;
const allStates: readonly DeliveryState[] = ['pending', 'delivered', 'failed', 'canceled'];

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

function refuse(param: string, reason: string): never {
  throw new GatewayError('invalid_value', `${param}: ${reason}`, { param });
}

function checkPage({ limit = pageLimit, after, webhookId, eventId, since, until }: DeliveryPage): void {
  if (!Number.isInteger(limit) || limit < 1 || limit > pageLimit) {
    refuse('limit', `must be a whole number from 1 to ${pageLimit}`);
  }
  if (after !== undefined && !isId('dlv', after)) refuse('after', 'must be the id of a delivery');
  if (webhookId !== undefined && !isId('wh', webhookId)) refuse('webhook_id', 'must be the id of a webhook');
  if (eventId !== undefined && !isId('evt', eventId)) refuse('event_id', 'must be the id of an event');
  for (const [param, moment] of Object.entries({ since, until })) {
    if (moment !== undefined && Number.isNaN(moment.getTime())) refuse(param, 'must be a moment in ISO 8601');
  }
}

/** What the ids of a page are bounded by; they sort by the time of their event. */
function idRange({ since, until, after }: DeliveryPage): { $gte: string; $lt?: string } {
  const idAt = (moment: Date) => firstId('dlv', Math.max(0, moment.getTime()));
  const before = [after, until && idAt(until)].filter((bound) => bound !== undefined).sort();
  return { $gte: since ? idAt(since) : 'dlv_', ...(before[0] !== undefined && { $lt: before[0] }) };
}

/** A query that its index answers in its order. */
interface IndexedQuery {
  readonly filter: object;
  readonly hint: string;
}

/** The queries whose answers together are a page: one, unless there are uncommonly many types. */
export async function queriesFor(
  userId: string,
  page: DeliveryPage,
  presentTypes: PresentTypes,
): Promise<IndexedQuery[]> {
  const { webhookId, eventId, type, state } = page;
  const common = { userId, _id: idRange(page), ...(webhookId !== undefined && { webhookId }) };
  const states = state === undefined ? allStates : [state];
  if (eventId !== undefined) {
    const filter = { ...common, eventId, state: { $in: [...states] }, ...(type !== undefined && { type }) };
    return [{ filter, hint: 'eventDeliveries' }];
  }
  const owner = webhookId === undefined ? { userId } : { webhookId };
  const types = type === undefined ? await presentTypes(owner) : [type];
  const groups = types.length * states.length > mostRanges ? states.map((one) => [one]) : [states];
  const hint = webhookId === undefined ? 'ofUser' : 'ofWebhook';
  return groups.map((group) => ({ filter: { ...common, type: { $in: types }, state: { $in: [...group] } }, hint }));
}

export function createDeliveryHistory(
  model: DeliveryModel,
  unstored: Pick<Unstored, 'find' | 'findConfirmed' | 'list'>,
): DeliveryHistory {
  const collection = durableCollection(model);
  const readConfirmed = createReadConfirmed(collection);
  const presentTypes = createPresentTypes(model);

  return {
    async list(userId, page = {}) {
      checkUserId(userId);
      checkPage(page);
      const { limit = pageLimit } = page;
      // before the others: what is stored in between is found by them
      const [{ deliveries: waiting, time }, queries] = await Promise.all([
        unstored.list(userId, page, idRange(page), limit + 1),
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
      const known = new Set(stored.map(({ _id }) => _id));
      const all = [...stored, ...waiting.filter(({ _id }) => !known.has(_id))];
      // below, deliveries that are not stored may be missing
      const found = all.filter(({ _id }) => timeOf(_id) >= time);
      if (answers.length > 1 || waiting.length > 0) found.sort((a, b) => (a._id < b._id ? 1 : -1));
      if (found.length > limit || time === '') {
        return { deliveries: found.slice(0, limit), hasMore: found.length > limit };
      }
      return { deliveries: found, hasMore: true, nextAfter: `dlv_${time}${'0'.repeat(16)}` };
    },

    async get(userId, id) {
      checkUserId(userId);
      const projection = { ...shownFields, attempts: 1 };
      const readStored = () => collection.findOne<ShownDelivery>({ _id: id, userId }, { projection });
      // stored in between, it is found by a second look
      const read = async () => (await readStored()) ?? (await unstored.find(userId, id)) ?? readStored();
      if (!isId('dlv', id)) throw deliveryNotFound(id);
      const found = (await readConfirmed(id, read)) ?? (await unstored.findConfirmed(userId, id));
      if (!found) throw deliveryNotFound(id);
      return found;
    },
  };
}
