import type { CollectionIndexes } from '../../mongo/schema/indexes.ts';

/** The one by which Agenda finds jobs that are due; any collection of jobs needs it. */
export const nextJob = {
  key: { name: 1, nextRunAt: 1, priority: -1, lockedAt: 1, disabled: 1 },
  name: 'next',
} as const;

/** The indexes of the jobs of delivery attempts: collection `<prefix>jobs`. */
export function jobIndexes(prefix: string): CollectionIndexes {
  const ofAttempt = { key: { 'data.deliveryId': 1, 'data.attempt': 1 }, name: 'ofAttempt', unique: true } as const;
  return { collection: `${prefix}jobs`, indexes: [nextJob, ofAttempt], isDisposable: true };
}
