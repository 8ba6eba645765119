import type { EventModel } from '../../events/model.ts';
import { firstId } from '../../ids.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { confirm, findConfirmed } from '../../mongo/confirmed-reads.ts';
import type { DeliveryModel } from '../model.ts';

/** What can be recovered: failed and canceled deliveries, and events that were skipped because the webhook was inactive. */
export type RecoverableState = 'failed' | 'canceled' | 'skipped';

/** Selects what to send again to a webhook. */
export interface Recoverable {
  readonly userId: string;
  readonly webhookId: string;
  readonly states: readonly RecoverableState[];
  /** Only events published at this moment or later … */
  readonly since: Date;
  /** … and before this one. */
  readonly until: Date;
}

/**
 * Finds what a webhook has missed, by index, oldest first. The reads are confirmed, because a recovery never returns to what it
 * did not find. Test events do not count as missed.
 */
export interface FindRecoverable {
  /** The number of deliveries and events, at most `atMost`. An unconfirmed read, because it is only shown. */
  count(selection: Recoverable, atMost: number): Promise<number>;
  /** Ids of deliveries that ended without success. */
  deliveries(selection: Recoverable, after: string | null, limit: number): Promise<string[]>;
  /** Ids of events that were not sent. */
  events(selection: Recoverable, after: string | null, limit: number): Promise<string[]>;
}

const idOnly = { _id: 1 } as const;

function idsBetween(prefix: 'dlv' | 'evt', { since, until }: Recoverable, after: string | null) {
  const before = firstId(prefix, until.getTime());
  return after === null ? { $gte: firstId(prefix, since.getTime()), $lt: before } : { $gt: after, $lt: before };
}

export function createFindRecoverable(deliveryModel: DeliveryModel, eventModel: EventModel): FindRecoverable {
  const deliveries = durableCollection(deliveryModel);
  const events = durableCollection(eventModel);

  async function endedFilter(selection: Recoverable, after: string | null) {
    const { userId, webhookId } = selection;
    const states = selection.states.filter((state) => state !== 'skipped');
    const type = { $in: await confirm((options) => deliveries.distinct('type', { webhookId }, options)) };
    return { webhookId, type, state: { $in: states }, _id: idsBetween('dlv', selection, after), userId, test: false };
  }

  function skippedFilter(selection: Recoverable, after: string | null) {
    const { userId, webhookId } = selection;
    // the second condition makes the partial index usable
    return { skipped: webhookId, 'skipped.0': { $exists: true }, _id: idsBetween('evt', selection, after), userId };
  }

  return {
    async count(selection, limit) {
      const [ended, missed] = await Promise.all([
        deliveries.countDocuments(await endedFilter(selection, null), { limit, hint: 'ofWebhook' }),
        selection.states.includes('skipped')
          ? events.countDocuments(skippedFilter(selection, null), { limit, hint: 'skipped' })
          : 0,
      ]);
      return Math.min(ended + missed, limit);
    },
    async deliveries(selection, after, limit) {
      const options = { projection: idOnly, hint: 'ofWebhook', sort: { _id: 1 }, limit } as const;
      const documents = await findConfirmed(deliveries, await endedFilter(selection, after), options);
      return documents.map(({ _id }) => _id);
    },
    async events(selection, after, limit) {
      if (!selection.states.includes('skipped')) return [];
      const options = { projection: idOnly, hint: 'skipped', sort: { _id: 1 }, limit } as const;
      const documents = await findConfirmed(events, skippedFilter(selection, after), options);
      return documents.map(({ _id }) => _id);
    },
  };
}
