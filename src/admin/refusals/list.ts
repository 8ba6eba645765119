import { type ErrorCode, refuse } from '../../errors.ts';
import { checkUserId } from '../../ids.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { hourLength, hourOf } from '../../statistics/durations.ts';
import type { RefusalDocument, RefusalModel } from './model.ts';

/** Which refusals are listed. */
export interface RefusalQuery {
  /** How many hours, the present one included: 1 to 168. @default 24 */
  readonly hours?: number;
  /** @default all accounts */
  readonly userId?: string;
}

/** How many requests were refused for one reason. */
export interface RefusalCount {
  readonly code: ErrorCode;
  readonly count: number;
}

/** The same of one account in one hour. */
export interface Refusal extends RefusalCount {
  /** When the hour began. */
  readonly hour: Date;
  /** `null` where no account became known. */
  readonly userId: string | null;
}

export interface RefusalReport {
  /** When the first hour began. */
  readonly since: Date;
  /** The newest hour first, and in it what was refused most; of an hour with more than fit, any may be missing. */
  readonly refusals: readonly Refusal[];
  /** Whether there are more than 1,000. */
  readonly hasMore: boolean;
}

/**
 * Lists what was refused, some seconds late.
 * @throws GatewayError `invalid_value`
 */
export type ListRefusals = (query?: RefusalQuery) => Promise<RefusalReport>;

/** The most lines of one report. */
const lineLimit = 1_000;
const maxHours = 168;

function toRefusals({ hour, userId, counts }: RefusalDocument): Refusal[] {
  return Object.entries(counts).map(([code, count]) => ({ hour, userId, code: code as ErrorCode, count }));
}

export function createListRefusals(model: RefusalModel): ListRefusals {
  const collection = durableCollection(model);

  return async function listRefusals({ hours = 24, userId } = {}) {
    if (!Number.isInteger(hours) || hours < 1 || hours > maxHours) {
      refuse('invalid_value', 'hours', `must be a whole number from 1 to ${maxHours}`);
    }
    if (userId !== undefined) checkUserId(userId);
    const since = new Date(hourOf(Date.now()) - (hours - 1) * hourLength);
    const hint = userId === undefined ? 'expiry' : 'userHours';
    // each document has a line at least
    const documents = await collection
      .find({ ...(userId !== undefined && { userId }), hour: { $gte: since } }, { hint, batchSize: lineLimit + 2 })
      .sort({ hour: -1 })
      .limit(lineLimit + 1)
      .toArray();
    const all = documents
      .flatMap(toRefusals)
      .sort((a, b) => b.hour.getTime() - a.hour.getTime() || b.count - a.count || a.code.localeCompare(b.code));
    return { since, refusals: all.slice(0, lineLimit), hasMore: all.length > lineLimit };
  };
}

/** Sums refusals up by their code, the most first. Pure. */
export function countByCode(refusals: readonly RefusalCount[]): RefusalCount[] {
  const counts = new Map<ErrorCode, number>();
  for (const { code, count } of refusals) counts.set(code, (counts.get(code) ?? 0) + count);
  return [...counts].map(([code, count]) => ({ code, count })).sort((a, b) => b.count - a.count);
}
