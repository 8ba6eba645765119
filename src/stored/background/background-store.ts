import { fromNow } from '../../mongo/clock.ts';
import { durableCollection, inOneBatch } from '../../mongo/collection.ts';
import type { BackgroundResponse } from '../../proxy/ownership/background-responses.ts';
import type { BackgroundDocument, StoredObjectDocument, StoredObjectModel } from '../model.ts';
import { toObject } from '../service.ts';

/** How long the process that claims a question has for it: longer than one takes. Milliseconds. */
const claimDuration = 60_000;
/** Of a response that is due for longer, nobody may have a job. Milliseconds. */
const overdueAfter = 5_000;
/** The most overdue responses of one look. */
const maxOverdue = 100;

type Following = StoredObjectDocument & { readonly background: BackgroundDocument };

/** A process asks the upstream next, and no other until the claim lapses. */
export interface ClaimedResponse {
  readonly response: BackgroundResponse;
  /** Fences the claim. */
  readonly attempt: number;
  /** Whether this is the last question. */
  readonly isLast: boolean;
}

function toResponse(document: StoredObjectDocument): BackgroundResponse {
  return toObject(document) as BackgroundResponse;
}

const isFollowed = { 'background.dueAt': { $exists: true } } as const;
const nextAttempt = { $add: ['$background.attempt', 1] };

/** Which responses are made in the background and are not counted, in the database; its clock decides when they are due. */
export function createBackgroundStore(objects: StoredObjectModel) {
  const collection = durableCollection(objects);

  return {
    /** Claims the next question about a response; `null` if it is not due, or counted. */
    async claim(id: string): Promise<ClaimedResponse | null> {
      const isDue = { _id: id, ...isFollowed, $expr: { $lte: ['$background.dueAt', '$$NOW'] } };
      const change = { 'background.attempt': nextAttempt, 'background.dueAt': fromNow(claimDuration) };
      const claimed = (await collection.findOneAndUpdate(isDue, [{ $set: change }], {
        returnDocument: 'after',
        projection: {
          kind: 1,
          userId: 1,
          upstream: 1,
          model: 1,
          background: 1,
          isLast: { $gte: ['$$NOW', '$background.giveUpAt'] },
        },
      })) as (Following & { readonly isLast: boolean }) | null;
      if (!claimed) return null;
      const { background, isLast } = claimed;
      return { response: toResponse(claimed), attempt: background.attempt, isLast };
    },

    /** Ends a claim: the next question is due in so many milliseconds. @returns whether the claim was still held */
    async release(id: string, attempt: number, wait: number): Promise<boolean> {
      const change = [{ $set: { 'background.dueAt': fromNow(wait) } }];
      return (await collection.updateOne({ _id: id, 'background.attempt': attempt }, change)).modifiedCount === 1;
    },

    /** Ends the following of a response. @returns whether this call has ended it */
    async finish(id: string, usageId: string): Promise<boolean> {
      const filter = { _id: id, 'background.usage.id': usageId };
      return (await collection.updateOne(filter, { $unset: { background: true } })).modifiedCount === 1;
    },

    /** Responses that are due for a while, the longest first. */
    async overdue(): Promise<string[]> {
      const isOverdue = { ...isFollowed, $expr: { $lte: ['$background.dueAt', fromNow(-overdueAfter)] } };
      const sorted = {
        sort: { 'background.dueAt': 1 },
        limit: maxOverdue,
        projection: { _id: 1 },
        ...inOneBatch,
      } as const;
      return (await collection.find(isOverdue, sorted).toArray()).map(({ _id }) => _id);
    },

    /** Those of these responses that are not counted. */
    async followed(ids: readonly string[]): Promise<ReadonlySet<string>> {
      const found = collection.find(
        { _id: { $in: [...ids] }, ...isFollowed },
        { projection: { _id: 1 }, ...inOneBatch },
      );
      return new Set((await found.toArray()).map(({ _id }) => _id));
    },
  };
}

export type BackgroundStore = ReturnType<typeof createBackgroundStore>;
