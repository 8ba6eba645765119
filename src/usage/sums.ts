import type { CounterDocument, PeriodDocument, UsageDocument, UsageSums } from './model.ts';

/** What of a record is counted, or says where. */
export const countedFields = [
  'userId',
  'keyId',
  'model',
  'startedAt',
  'inputTokens',
  'outputTokens',
  'images',
] as const satisfies readonly (keyof UsageDocument)[];

export type CountedRecord = Pick<UsageDocument, '_id' | (typeof countedFields)[number]>;

/** UTC. Pure. */
export function dayOf(date: Date): string {
  return date.toISOString().slice(0, 10);
}

type CounterKey = Omit<CounterDocument, keyof UsageSums>;
type PeriodKey = Omit<PeriodDocument, keyof UsageSums | 'announced'>;

/** What is added to one document, and the records it comes from, in their order. */
export interface Addition<Key> {
  readonly key: Key;
  readonly sums: UsageSums;
  readonly records: readonly CountedRecord[];
}

/** The longest name of a model that is counted by itself; callers choose it. */
const modelLimit = 256;

function counterOf({ userId, startedAt, model, keyId }: CountedRecord): CounterKey {
  const day = dayOf(startedAt);
  const counted = model === null ? null : model.slice(0, modelLimit);
  return { _id: JSON.stringify([userId, day, counted, keyId]), userId, day, model: counted, keyId };
}

function periodsOf({ userId, startedAt }: CountedRecord): PeriodKey[] {
  const day = dayOf(startedAt);
  const starts = { daily: day, monthly: day.slice(0, 7) } as const;
  return (['daily', 'monthly'] as const).map((period) => {
    const start = starts[period];
    return { _id: JSON.stringify([userId, period, start]), userId, period, start };
  });
}

function grouped<Key extends { _id: string }>(
  records: readonly CountedRecord[],
  keysOf: (record: CountedRecord) => Key[],
): Addition<Key>[] {
  const byId = new Map<string, { key: Key; sums: UsageSums; records: CountedRecord[] }>();
  for (const record of records) {
    for (const key of keysOf(record)) {
      let group = byId.get(key._id);
      if (!group) {
        group = { key, sums: { requests: 0, inputTokens: 0, outputTokens: 0, images: 0 }, records: [] };
        byId.set(key._id, group);
      }
      group.sums.requests += 1;
      group.sums.inputTokens += record.inputTokens;
      group.sums.outputTokens += record.outputTokens;
      group.sums.images += record.images;
      group.records.push(record);
    }
  }
  return [...byId.values()];
}

/** What these records add to the counters by day, model and key. Pure. */
export function counterAdditions(records: readonly CountedRecord[]): Addition<CounterKey>[] {
  return grouped(records, (record) => [counterOf(record)]);
}

/** What these records add to the days and months of their accounts. Pure. */
export function periodAdditions(records: readonly CountedRecord[]): Addition<PeriodKey>[] {
  return grouped(records, periodsOf);
}
