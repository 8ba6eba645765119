import type { PaymentModel, UsageModel } from '../accounting/model.ts';
import type { components } from '../api.d.ts';
import type { DeliveryModel, RecoveryModel } from '../deliveries/model.ts';
import type { EventModel } from '../events/model.ts';
import { checkStorableId, type IdPrefix, isId, timeOf } from '../ids.ts';
import type { KeyModel } from '../keys/model.ts';
import { durableCollection } from '../mongo/collection.ts';
import type { StoredObjectModel } from '../stored/model.ts';
import type { WebhookModel } from '../webhooks/model.ts';
import type { ListAccountIds } from './accounts.ts';

/** What can be found. `stored_object` is what an upstream keeps: a response, a conversation, a chat completion. */
export type SearchResultType = components['schemas']['SearchResultType'];

/** What has an id. */
export interface SearchResult {
  readonly type: SearchResultType;
  readonly id: string;
  readonly userId: string;
  /** `null` where that is not known. */
  readonly createdAt: Date | null;
}

/** What is searched, besides the accounts. */
export interface SearchedModels {
  readonly keys: KeyModel;
  readonly webhooks: WebhookModel;
  readonly events: EventModel;
  readonly deliveries: DeliveryModel;
  readonly recoveries: RecoveryModel;
  readonly usage: UsageModel;
  readonly payments: PaymentModel;
  readonly stored: StoredObjectModel;
}

/**
 * Finds what has an id: of an API key also its first 30 characters, and of a request, as `x-request-id` tells it, the usage record of its call.
 * @throws GatewayError `invalid_value`
 */
export type Search = (id: string) => Promise<SearchResult[]>;

interface OwnedDocument {
  readonly _id: string;
  readonly userId: string;
}

/** Looks an id up in one collection, by the index of `_id`. */
type LookUp = (id: string) => Promise<SearchResult[]>;

/**
 * The most usage records that are looked through for the id of a request. Both ids begin with their time, and a record is opened
 * after its request: the first records from that time on have it.
 */
const recordLimit = 10_000;

/** The shown part of a key's text: `emg_` and the 26 characters of its id. */
const keyText = /^emg_([0-9a-z]{26})(?:_|$)/;

function createLookUpRequest(usage: UsageModel): LookUp {
  const collection = durableCollection(usage);
  return async (requestId) => {
    const records = await collection
      .aggregate<OwnedDocument & { readonly startedAt: Date }>([
        { $match: { _id: { $gte: `use_${timeOf(requestId)}` } } },
        { $sort: { _id: 1 } },
        { $limit: recordLimit },
        { $match: { requestId } },
        { $project: { userId: 1, startedAt: 1 } },
      ])
      .toArray();
    return records.map(({ _id: id, userId, startedAt }) => ({
      type: 'usage_record',
      id,
      userId,
      createdAt: startedAt,
    }));
  };
}

export function createSearch(models: SearchedModels, listIds: ListAccountIds): Search {
  /** @param moment the field that has the time when it was made */
  function lookUpIn(type: SearchResultType, model: unknown, moment: string): LookUp {
    const collection = durableCollection<OwnedDocument & Readonly<Record<string, unknown>>>(model as never);
    return async (id) => {
      const document = await collection.findOne({ _id: id }, { projection: { userId: 1, [moment]: 1 } });
      return document
        ? [{ type, id, userId: document.userId, createdAt: (document[moment] as Date | undefined) ?? null }]
        : [];
    };
  }

  const ofGateway = {
    key: lookUpIn('api_key', models.keys, 'createdAt'),
    wh: lookUpIn('webhook', models.webhooks, 'createdAt'),
    evt: lookUpIn('event', models.events, 'created'),
    dlv: lookUpIn('delivery', models.deliveries, 'createdAt'),
    rec: lookUpIn('recovery', models.recoveries, 'startedAt'),
    use: lookUpIn('usage_record', models.usage, 'startedAt'),
    req: createLookUpRequest(models.usage),
  } satisfies Partial<Record<IdPrefix, LookUp>>;

  async function lookUpAccount(userId: string): Promise<SearchResult[]> {
    const [first] = await listIds({ after: undefined, prefix: userId, limit: 1 });
    return first === userId ? [{ type: 'account', id: userId, userId, createdAt: null }] : [];
  }

  const named = [
    lookUpAccount,
    lookUpIn('payment', models.payments, 'created'),
    lookUpIn('stored_object', models.stored, 'createdAt'),
  ];

  return async function search(given) {
    checkStorableId('id', given);
    const ofKey = keyText.exec(given)?.[1];
    const id = ofKey === undefined ? given : `key_${ofKey}`;
    const [, lookUp] = Object.entries(ofGateway).find(([prefix]) => isId(prefix as IdPrefix, id)) ?? [];
    const lookUps = lookUp ? [lookUp] : named;
    return (await Promise.all(lookUps.map((find) => find(id)))).flat();
  };
}
