/**
 * The update that stores what one process holds of a balance, and reserves what fits. `reservations.ts` says when it is made.
 */

/**
 * How long what a process has reserved stays so without a word of it. What a dead process had reserved is free then; what its ended calls
 * cost has been charged by that time. Milliseconds.
 */
export const leaseDuration = 10_000;
/** A process reserves for calls to come only where so many times as much is free: then nobody waits for it. */
export const plenty = 16;

/** What one update stores. Micro-credits. */
export interface ReservationUpdate {
  /** All that the process has reserved or spent, without `amounts` and `spare`. */
  readonly taken: number;
  /** What is to be reserved, in this order, as far as it fits. */
  readonly amounts: readonly number[];
  /** What is to be reserved beside these for calls to come, where there is plenty. */
  readonly spare: number;
  /** What calls that ask again have not got at the updates before. */
  readonly unmet: number;
  /** What stays reserved without this process, by usage record. */
  readonly kept: ReadonlyMap<string, number>;
  /** The usage records for which nothing stays reserved any more. */
  readonly freed: readonly string[];
  /** What was charged, as far as the process knows: it is forgotten with what is stored of a process that stood still for long. */
  readonly charged: number;
}

/** What is stored then. Micro-credits. */
export interface WrittenReservations {
  /** What was charged of `taken`. */
  readonly charged: number;
  /** What could be reserved before. @default 0 */
  readonly free?: number;
  /** What other processes hold. @default 0 */
  readonly others?: number;
  /** What was reserved for calls to come. @default 0 */
  readonly spare?: number;
}

/** For longer, what is reserved for a call that an upstream works on is not kept. Milliseconds. */
const longestKept = 30 * 86_400_000;
/** For so long what a process had reserved is remembered after its lease has ended, so that one that stood still finds what was charged of it. Milliseconds. */
const rememberedFor = 3_600_000;

/** The update that stores what a process has taken, and reserves as many of the amounts as fit. Behind a later one it changes nothing. */
export function updateOf(holder: string, overdraft: number, turn: number, update: ReservationUpdate) {
  const { taken, amounts, spare, unmet, kept, freed } = update;
  const all = { $ifNull: ['$reservations', []] };
  const isMine = { $eq: ['$$this.holder', holder] };
  const added = [...kept].map(([usageId, amount]) => ({
    ...{ holder: { $literal: usageId }, taken: amount, charged: 0 },
    until: { $add: ['$$NOW', longestKept] },
  }));
  const vars = {
    present: { $arrayElemAt: [{ $filter: { input: all, cond: isMine } }, 0] },
    others: {
      $filter: {
        input: all,
        cond: {
          $and: [
            { $ne: ['$$this.holder', holder] },
            { $gt: ['$$this.until', { $subtract: ['$$NOW', rememberedFor] }] },
            { $not: { $in: ['$$this.holder', [...kept.keys(), ...freed]] } },
          ],
        },
      },
    },
  };
  const heldIn = { $max: [0, { $subtract: ['$$this.taken', '$$this.charged'] }] };
  const sumOf = (amount: object) => {
    const living = { $cond: [{ $gt: ['$$this.until', '$$NOW'] }, amount, 0] };
    return { $reduce: { input: '$$others', initialValue: 0, in: { $add: ['$$value', living] } } };
  };
  const sums = {
    charged: { $ifNull: ['$$present.charged', update.charged] },
    held: sumOf(heldIn),
    lacking: sumOf({ $ifNull: ['$$this.unmet', 0] }),
  };
  const keptSum = [...kept.values()].reduce((sum, amount) => sum + amount, 0);
  const own = { $subtract: [taken + keptSum, '$$charged'] };
  const free = { $subtract: [{ $add: ['$balance', overdraft] }, { $add: ['$$held', own] }] };
  const sum = { $add: ['$$value', '$$this'] };
  const granted = {
    $reduce: { input: amounts, initialValue: 0, in: { $cond: [{ $lte: [sum, '$$free'] }, sum, '$$value'] } },
  };
  const asked = amounts.reduce((total, amount) => total + amount, 0);
  const needed = { $add: [asked + unmet, '$$lacking', spare * plenty] };
  const decided = { granted, spare: { $cond: [{ $gte: ['$$free', needed] }, spare, 0] } };
  const mine = {
    ...{ holder: { $literal: holder }, taken: { $add: [taken, '$$granted', '$$spare'] }, charged: '$$charged' },
    ...{ until: { $add: ['$$NOW', leaseDuration] }, turn, free: '$$free', others: '$$held' },
    ...{ spare: '$$spare', unmet: { $max: [unmet, { $subtract: [asked, '$$granted'] }] } },
  };
  const next = { $concatArrays: ['$$others', [mine], added] };
  const reservations = { $cond: [{ $gt: ['$$present.turn', turn] }, '$reservations', next] };
  return [{ $set: { reservations: where(vars, where(sums, where({ free }, where(decided, reservations)))) } }];
}

/** An expression in which variables stand for others. */
function where(vars: object, expression: object) {
  return { $let: { vars, in: expression } };
}
