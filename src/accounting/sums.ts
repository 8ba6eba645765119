import { modelNameLimit } from '../ids.ts';
import type { StoredUsage } from '../options/options.ts';
import type { CounterDocument, KeyTotalDocument, PeriodDocument, UsageDocument, UsageSums } from './model.ts';

/** The fields of a record that are counted, or decide where it is counted. */
export const countedFields = [
  'userId',
  'keyId',
  'endpoint',
  'model',
  'startedAt',
  'ending',
  'estimated',
  'inputTokens',
  'cachedInputTokens',
  'outputTokens',
  'reasoningTokens',
  'images',
  'seconds',
  'characters',
  'stored',
] as const satisfies readonly (keyof UsageDocument)[];

export type CountedRecord = Pick<UsageDocument, '_id' | (typeof countedFields)[number]>;

/** UTC. Pure. */
export function dayOf(date: Date): string {
  return date.toISOString().slice(0, 10);
}

type CounterKey = Omit<CounterDocument, keyof UsageSums>;
type PeriodKey = Omit<PeriodDocument, keyof UsageSums | 'announced'>;
type KeyTotalKey = Omit<KeyTotalDocument, keyof UsageSums>;

/** What is added to one document, and the records that it comes from, in their order. */
export interface Addition<Key> {
  readonly key: Key;
  readonly sums: UsageSums;
  readonly records: readonly CountedRecord[];
}

/** What is added to a day or month of an account. */
export type PeriodAddition = Addition<PeriodKey>;

/** What is added to the total of a key. */
export type KeyTotalAddition = Addition<KeyTotalKey>;

/** The id of the total of a key. Pure. */
export function keyTotalId(userId: string, keyId: string): string {
  return JSON.stringify([userId, keyId]);
}

/** The day and month of an account that a day belongs to. Pure. */
export function periodsOf({ userId }: Pick<CountedRecord, 'userId'>, day: string): PeriodKey[] {
  const starts = { daily: day, monthly: day.slice(0, 7) } as const;
  return (['daily', 'monthly'] as const).map((period) => {
    const start = starts[period];
    return { _id: JSON.stringify([userId, period, start]), userId, period, start };
  });
}

/** Sums of nothing. Pure. */
export function noUsage(): UsageSums {
  return {
    requests: 0,
    inputTokens: 0,
    cachedInputTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    images: 0,
    seconds: 0,
    characters: 0,
  };
}

/** What a group of counters holds together, with its cost in micro-credits: fields of a `$group`. */
export const summed = Object.fromEntries(
  [...Object.keys(noUsage()), 'uploadedBytes', 'downloadedBytes', 'microCredits'].map((field) => [
    field,
    { $sum: `$${field}` },
  ]),
);

/** How many requests a record counts as: none where its answer was nothing but an error of the upstream, or where it called no model. Pure. */
export function requestsIn({ ending, estimated, stored, ...used }: CountedRecord): 0 | 1 {
  if (stored) return 0;
  if (ending !== 'upstream_failed' || estimated) return 1;
  const { inputTokens, outputTokens, images, seconds = 0, characters = 0 } = used;
  return inputTokens + outputTokens + images + seconds + characters === 0 ? 0 : 1;
}

function addBytes(sums: UsageSums, { uploadedBytes, downloadedBytes }: StoredUsage): void {
  if (uploadedBytes !== 0) sums.uploadedBytes = (sums.uploadedBytes ?? 0) + uploadedBytes;
  if (downloadedBytes !== 0) sums.downloadedBytes = (sums.downloadedBytes ?? 0) + downloadedBytes;
}

/** What a record costs, in micro-credits; `undefined` where nothing has a price. */
export type CostOf = ((record: CountedRecord) => number) | undefined;

/**
 * Adds each record to the documents it belongs to.
 * @throws TypeError or RangeError for a record that is malformed
 */
function grouped<Key extends { _id: string }>(
  records: readonly CountedRecord[],
  cost: CostOf,
  keysOf: (record: CountedRecord) => Key[],
): Addition<Key>[] {
  const byId = new Map<string, Addition<Key> & { readonly records: CountedRecord[] }>();
  for (const record of records) {
    const microCredits = cost?.(record) ?? 0;
    for (const key of keysOf(record)) {
      const group = byId.get(key._id) ?? { key, sums: noUsage(), records: [] };
      byId.set(key._id, group);
      const { sums } = group;
      sums.requests += requestsIn(record);
      sums.inputTokens += record.inputTokens;
      sums.cachedInputTokens += record.cachedInputTokens;
      sums.outputTokens += record.outputTokens;
      sums.images += record.images;
      // a record of an earlier version has none of these
      sums.reasoningTokens += record.reasoningTokens ?? 0;
      sums.seconds += record.seconds ?? 0;
      sums.characters += record.characters ?? 0;
      if (record.stored) addBytes(sums, record.stored);
      if (microCredits > 0) sums.microCredits = (sums.microCredits ?? 0) + microCredits;
      group.records.push(record);
    }
  }
  for (const { sums } of byId.values()) {
    if (Object.values(sums).every(Number.isFinite)) continue;
    throw new TypeError('a usage record has an amount that is not a number');
  }
  return [...byId.values()];
}

/** What these records add to the counters by day, model and key. Pure. */
export function counterAdditions(records: readonly CountedRecord[], cost: CostOf): Addition<CounterKey>[] {
  return grouped(records, cost, ({ userId, model: called, keyId, startedAt }) => {
    const day = dayOf(startedAt);
    const model = called === null ? null : called.slice(0, modelNameLimit);
    return [{ _id: JSON.stringify([userId, day, model, keyId]), userId, day, model, keyId }];
  });
}

/** What these records add to the days and months of their accounts. Pure. */
export function periodAdditions(records: readonly CountedRecord[], cost: CostOf): PeriodAddition[] {
  return grouped(records, cost, (record) => periodsOf(record, dayOf(record.startedAt)));
}

/** What these records add to the totals of the keys that they were made with. Pure. */
export function keyTotalAdditions(records: readonly CountedRecord[], cost: CostOf): KeyTotalAddition[] {
  return grouped(records, cost, ({ userId, keyId }) =>
    keyId === null ? [] : [{ _id: keyTotalId(userId, keyId), userId, keyId }],
  );
}

/** One upsert for each document that sums are added to. Pure. */
export function increments<Key extends { _id: string }>(additions: readonly Addition<Key>[]) {
  return additions.map(({ key: { _id, ...key }, sums }) => ({
    updateOne: { filter: { _id }, update: { $inc: { ...sums }, $setOnInsert: key }, upsert: true },
  }));
}
