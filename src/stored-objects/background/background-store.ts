import { fromNow } from '../../mongo/clock.ts';
import { durableCollection, inOneBatch } from '../../mongo/collection.ts';
import { Leases } from '../../mongo/lease.ts';
import type { BackgroundResponse } from '../../proxy/ownership/background-responses.ts';
import { type BackgroundDocument, type StoredObjectDocument, type StoredObjectModel, toObject } from '../model.ts';
import type { PollRef } from './poll-queue.ts';

/** How long the process that claims a poll has for it: longer than one takes. Milliseconds. */
const claimDuration = 60_000;
/** A response that has been due for longer has probably lost its job. Milliseconds. */
const overdueAfter = 5_000;
/** The most overdue responses of one sweep: more than several accounts may have in a process. */
const maxOverdue = 2_000;

type UncountedDocument = StoredObjectDocument & { readonly background: BackgroundDocument };

/** A response that one process polls next, and no other until the claim lapses. */
export interface ClaimedResponse {
  readonly response: BackgroundResponse;
  /** How often it has been claimed, this time too. Fences the claim. */
  readonly polls: number;
  /** Whether this is the last poll. */
  readonly isLast: boolean;
}

function toResponse(document: StoredObjectDocument): BackgroundResponse {
  return toObject(document) as BackgroundResponse;
}

const isUncounted = { 'background.dueAt': { $exists: true } } as const;
const nextPoll = { $add: ['$background.polls', 1] };

/** Which responses are made in the background and are not counted, in the database; its clock decides when they are due. */
export function createBackgroundStore(objects: StoredObjectModel) {
  const collection = durableCollection(objects);
  const leases = new Leases(collection, {
    fence: 'background.polls',
    until: 'background.dueAt',
    duration: claimDuration,
  });

  return {
    /** Claims the next poll of a response; `null` if it is not due, or counted. */
    async claim(id: string): Promise<ClaimedResponse | null> {
      const isDue = { _id: id, ...isUncounted, $expr: { $lte: ['$background.dueAt', '$$NOW'] } };
      const projection = {
        kind: 1,
        userId: 1,
        upstream: 1,
        model: 1,
        background: 1,
        isLast: { $gte: ['$$NOW', '$background.giveUpAt'] },
      };
      const taken = await leases.take(isDue, { 'background.polls': nextPoll }, { projection });
      const claimed = taken?.document as (UncountedDocument & { readonly isLast: boolean }) | undefined;
      if (!claimed) return null;
      const { background, isLast } = claimed;
      return { response: toResponse(claimed), polls: background.polls, isLast };
    },

    /** Ends a claim: the next poll is due in so many milliseconds. @returns whether the claim was still held */
    release(id: string, polls: number, wait: number): Promise<boolean> {
      return leases.write({ _id: id, fence: polls }, { 'background.dueAt': fromNow(wait) });
    },

    /** Ends the polling of a response. @returns whether this call has ended it */
    async finish(id: string, usageId: string): Promise<boolean> {
      const filter = { _id: id, 'background.usage.id': usageId };
      return (await collection.updateOne(filter, { $unset: { background: true } })).modifiedCount === 1;
    },

    /** Responses that are due for a while, the longest first. */
    async overdue(): Promise<PollRef[]> {
      const isOverdue = { ...isUncounted, $expr: { $lte: ['$background.dueAt', fromNow(-overdueAfter)] } };
      const sorted = {
        sort: { 'background.dueAt': 1 },
        limit: maxOverdue,
        projection: { userId: 1 },
        ...inOneBatch,
      } as const;
      return (await collection.find(isOverdue, sorted).toArray()).map(({ _id: id, userId }) => ({ id, userId }));
    },

    /** Those of these responses that are not counted. */
    async uncounted(ids: readonly string[]): Promise<ReadonlySet<string>> {
      const cursor = collection.find(
        { _id: { $in: [...ids] }, ...isUncounted },
        { projection: { _id: 1 }, ...inOneBatch },
      );
      return new Set((await cursor.toArray()).map(({ _id }) => _id));
    },
  };
}

export type BackgroundStore = ReturnType<typeof createBackgroundStore>;
