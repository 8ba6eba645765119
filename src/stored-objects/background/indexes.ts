import { nextJob } from '../../mongo/agenda.ts';
import type { CollectionIndexes } from '../../mongo/schema/indexes.ts';

/** The indexes of the jobs that poll responses: collection `<prefix>response_jobs`. */
export function responseJobIndexes(prefix: string): CollectionIndexes {
  const responsePoll = { key: { 'data.responseId': 1, 'data.polls': 1 }, name: 'responsePoll' } as const;
  return { collection: `${prefix}response_jobs`, indexes: [nextJob, responsePoll], isDisposable: true };
}
