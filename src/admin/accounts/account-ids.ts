import type { PeriodModel } from '../../accounting/usage/model.ts';
import { dayOf } from '../../accounting/usage/sums.ts';
import type { KeyModel } from '../../keys/model.ts';
import { durableCollection } from '../../mongo/collection.ts';
import type { WebhookModel } from '../../webhooks/model.ts';

/** Which user ids are listed. */
interface AccountRange {
  /** The user id that the page follows; `undefined` for the first page. */
  readonly after: string | undefined;
  /** What the user ids begin with; `undefined` for any. */
  readonly prefix: string | undefined;
  readonly limit: number;
}

export interface AccountIdsDeps {
  readonly keys: KeyModel;
  readonly webhooks: WebhookModel;
  /** `undefined` where usage is not counted. */
  readonly periods: PeriodModel | undefined;
}

/** Lists the ids of accounts that have a key, a webhook or usage this month, in the order of their bytes, as the database sorts them. */
export type ListAccountIds = (range: AccountRange) => Promise<string[]>;

/** What is read of the documents that belong to accounts. */
type OfAccount = { readonly userId: string; readonly period?: string; readonly start?: string };
type Collection = ReturnType<typeof durableCollection<OfAccount>>;

/** One collection, and an index of it by user id. */
interface Source {
  readonly collection: Collection;
  readonly hint: string;
  readonly filter: Pick<OfAccount, 'period' | 'start'>;
}

/** How many entries of an index are read at once for each account that is wanted: an account has several keys and webhooks. */
const entriesPerAccount = 4;

/** Those of one collection. An account with very many entries costs one more read for so many of them, never a scan of them all. */
async function idsIn({ collection, hint, filter }: Source, { after, prefix, limit }: AccountRange): Promise<string[]> {
  const below = prefix === undefined ? {} : { $lt: `${prefix}\u{10ffff}` };
  const ids: string[] = [];
  const size = entriesPerAccount * limit;
  let past = after === undefined || (prefix !== undefined && prefix > after) ? undefined : after;
  while (ids.length < limit) {
    const from = past === undefined ? (prefix === undefined ? {} : { $gte: prefix }) : { $gt: past };
    const bounds = { ...from, ...below };
    const isBounded = Object.keys(bounds).length > 0;
    const options = { projection: { _id: 0, userId: 1 }, hint, batchSize: size + 1 } as const;
    const documents = await collection
      .find({ ...filter, ...(isBounded && { userId: bounds }) }, options)
      .sort({ userId: 1 })
      .limit(size)
      .toArray();
    ids.push(...new Set(documents.map(({ userId }) => userId)));
    if (documents.length < size) break;
    past = ids.at(-1);
  }
  return ids.slice(0, limit);
}

const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Merges what three indexes list. No collection has a document for each account. */
export function createListAccountIds({ keys, webhooks, periods }: AccountIdsDeps): ListAccountIds {
  const ofAccounts = (collection: unknown) => collection as Collection;
  const byUser: readonly Source[] = [
    { collection: ofAccounts(durableCollection(keys)), hint: 'userKeys', filter: {} },
    { collection: ofAccounts(durableCollection(webhooks)), hint: 'userWebhooks', filter: {} },
  ];
  const used = periods && ofAccounts(durableCollection(periods));

  return async function listAccountIds(range) {
    const filter = { period: 'monthly', start: dayOf(new Date()).slice(0, 7) };
    const inUse: readonly Source[] = used ? [{ collection: used, hint: 'monthAccounts', filter }] : [];
    const idLists = await Promise.all([...byUser, ...inUse].map((source) => idsIn(source, range)));
    return [...new Set(idLists.flat())].sort(byBytes).slice(0, range.limit);
  };
}
