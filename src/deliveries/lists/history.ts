import { GatewayError } from '../../errors.ts';
import { checkUserId, isId, timeOf } from '../../ids.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { createReadConfirmed } from '../../mongo/confirmed-reads.ts';
import { pageLimit } from '../../mongo/list-page.ts';
import type { DeliveryModel } from '../model.ts';
import {
  checkDeliveryPage,
  type DeliveryPage,
  idRange,
  type ListedDelivery,
  type ShownDelivery,
} from './delivery-page.ts';
import type { DerivedDeliveries } from './derived-deliveries.ts';
import { createPresentTypes, queriesFor } from './page-queries.ts';

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
