import { modelNameLimit } from '../ids.ts';
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
  'cacheWriteTokens',
  'cacheWriteHourTokens',
  'inputAudioTokens',
  'cachedInputAudioTokens',
  'outputAudioTokens',
  'images',
  'imageModels',
  'webSearchCalls',
  'fileSearchCalls',
  'codeInterpreterCalls',
  'seconds',
  'characters',
  'units',
  'stored',
  'holder',
] as const satisfies readonly (keyof UsageDocument)[];

/** Those that most records do not have. */
export const furtherFields = [
  'cacheWriteTokens',
  'cacheWriteHourTokens',
  'inputAudioTokens',
  'cachedInputAudioTokens',
  'outputAudioTokens',
  'webSearchCalls',
  'fileSearchCalls',
  'codeInterpreterCalls',
  'units',
] as const;

export type CountedRecord = Pick<UsageDocument, '_id' | (typeof countedFields)[number]>;

/** UTC. */
export function dayOf(date: Date): string {
  return date.toISOString().slice(0, 10);
}

type PeriodKey = Omit<PeriodDocument, keyof UsageSums | 'announced'>;
type KeyTotalKey = Omit<KeyTotalDocument, keyof UsageSums>;

/** What is added to one document. */
export interface Addition<Key> {
  readonly key: Key;
  readonly sums: UsageSums;
  /** What each record adds, in their order. */
  readonly added: readonly UsageSums[];
}

/** What is added to a day or month of an account. */
export type PeriodAddition = Addition<PeriodKey>;

/** What is added to the total of a key. */
export type KeyTotalAddition = Addition<KeyTotalKey>;

/** The id of the total of a key. */
export function keyTotalId(userId: string, keyId: string): string {
  return JSON.stringify([userId, keyId]);
}

/** The day and month of an account that a day belongs to. */
export function periodsOf({ userId }: Pick<CountedRecord, 'userId'>, day: string): PeriodKey[] {
  const starts = { daily: day, monthly: day.slice(0, 7) } as const;
  return (['daily', 'monthly'] as const).map((period) => {
    const start = starts[period];
    return { _id: JSON.stringify([userId, period, start]), userId, period, start };
  });
}

/** Sums of nothing. */
function noUsage(): UsageSums {
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
  [...Object.keys(noUsage()), ...furtherFields, 'uploadedBytes', 'downloadedBytes', 'microCredits'].map((field) => [
    field,
    { $sum: `$${field}` },
  ]),
);

/** What a record costs, in micro-credits; `undefined` where nothing has a price. */
export type CostOf = ((record: CountedRecord) => number) | undefined;

/** What a record adds to sums. */
function usageOf(record: CountedRecord, cost: CostOf): UsageSums {
  const { inputTokens, cachedInputTokens, outputTokens, images, stored } = record;
  // a record of an earlier version has none of these
  const [reasoningTokens, seconds, characters] = [
    record.reasoningTokens ?? 0,
    record.seconds ?? 0,
    record.characters ?? 0,
  ];
  // it is no request if its answer was nothing but an error of the upstream, or if it called no model
  const hasFailed = record.ending === 'upstream_failed' && !record.estimated;
  const isNothing = hasFailed && inputTokens + outputTokens + images + seconds + characters + (record.units ?? 0) === 0;
  const microCredits = cost?.(record) ?? 0;
  const further = furtherFields.flatMap((name) => (record[name] ? [[name, record[name]] as const] : []));
  return {
    requests: stored || isNothing ? 0 : 1,
    inputTokens,
    cachedInputTokens,
    outputTokens,
    reasoningTokens,
    images,
    seconds,
    characters,
    ...Object.fromEntries(further),
    ...(stored && stored.uploadedBytes !== 0 && { uploadedBytes: stored.uploadedBytes }),
    ...(stored && stored.downloadedBytes !== 0 && { downloadedBytes: stored.downloadedBytes }),
    ...(microCredits > 0 && { microCredits }),
  };
}

type Additions<Key> = Map<string, Addition<Key> & { readonly added: UsageSums[] }>;

function addTo<Key extends { readonly _id: string }>(additions: Additions<Key>, key: Key, usage: UsageSums): void {
  const addition = additions.get(key._id) ?? { key, sums: noUsage(), added: [] };
  additions.set(key._id, addition);
  const { sums, added } = addition;
  for (const [field, amount] of Object.entries(usage) as [keyof UsageSums, number][]) {
    sums[field] = (sums[field] ?? 0) + amount;
  }
  added.push(usage);
}

/**
 * Adds records to the documents they belong to: the counters by day, model and key, the days and months of accounts, and the totals of keys.
 * @throws TypeError or RangeError for a record that is malformed
 */
export function additionsOf(records: readonly CountedRecord[], cost: CostOf) {
  const counters: Additions<Omit<CounterDocument, keyof UsageSums>> = new Map();
  const periods: Additions<PeriodKey> = new Map();
  const keyTotals: Additions<KeyTotalKey> = new Map();
  for (const record of records) {
    const { userId, keyId } = record;
    const usage = usageOf(record, cost);
    const day = dayOf(record.startedAt);
    const model = record.model === null ? null : record.model.slice(0, modelNameLimit);
    addTo(counters, { _id: JSON.stringify([userId, day, model, keyId]), userId, day, model, keyId }, usage);
    for (const period of periodsOf(record, day)) addTo(periods, period, usage);
    if (keyId !== null) addTo(keyTotals, { _id: keyTotalId(userId, keyId), userId, keyId }, usage);
  }
  for (const { sums } of periods.values()) {
    if (Object.values(sums).every(Number.isFinite)) continue;
    throw new TypeError('a usage record has an amount that is not a number');
  }
  return { counters: [...counters.values()], periods: [...periods.values()], keyTotals: [...keyTotals.values()] };
}

/** One upsert for each document that sums are added to. */
export function increments<Key extends { _id: string }>(additions: readonly Addition<Key>[]) {
  return additions.map(({ key: { _id, ...key }, sums }) => ({
    updateOne: { filter: { _id }, update: { $inc: { ...sums }, $setOnInsert: key }, upsert: true },
  }));
}

/** A threshold, and the usage that has reached it. Both in percent of the quota. */
interface Crossing {
  readonly threshold: number;
  readonly usage: number;
}

/** To two decimals. */
function percent(used: number, quota: number): number {
  return Math.round((used / quota) * 10_000) / 100;
}

/** The usage of one quota, as calls add to it. */
export interface AddedUsage {
  /** The usage before these amounts. */
  readonly before: number;
  readonly amounts: readonly number[];
  readonly quota: number;
  readonly thresholds: readonly number[];
  /** Thresholds that are published already. */
  readonly announced: readonly number[];
}

/**
 * The thresholds that are reached while these amounts are added one by one, each at the first amount that reaches it. A
 * threshold that was passed before, under another quota, is reached at the first amount.
 */
export function crossings({ before, amounts, quota, thresholds, announced }: AddedUsage): Crossing[] {
  const missing = new Set([...thresholds].sort((a, b) => a - b).filter((threshold) => !announced.includes(threshold)));
  const reached: Crossing[] = [];
  let used = before;
  for (const amount of amounts) {
    used += amount;
    for (const threshold of missing) {
      if (used * 100 < threshold * quota) break;
      missing.delete(threshold);
      reached.push({ threshold, usage: percent(used, quota) });
    }
  }
  return reached;
}
