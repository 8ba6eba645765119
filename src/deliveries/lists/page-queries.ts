import { durableCollection } from '../../mongo/collection.ts';
import { type DeliveryModel, deliveryStates } from '../model.ts';
import { type DeliveryPage, idRange } from './delivery-page.ts';

/** The account or the webhook whose deliveries are listed. */
export type Owner = { readonly userId: string } | { readonly webhookId: string };

/**
 * Reads the event types of the owner's deliveries. The indexes have owner, type and state before the id. If a query names all
 * types and states, MongoDB reads that many ranges of the index at once and merges them by id, so every filter finds its
 * page in the index. This way one index for accounts and one for webhooks serve every combination; each index costs writes.
 */
export type PresentTypes = (owner: Owner) => Promise<string[]>;

/** MongoDB merges this many ranges at most; it would sort more of them in memory (internalQueryMaxScansToExplode). */
const maxRanges = 200;

/** Skips through the index, one step for each type. */
export function createPresentTypes(model: DeliveryModel): PresentTypes {
  const collection = durableCollection(model);
  return (owner) => collection.distinct('type', owner);
}

/** A query that its index answers in the order of ids. */
interface IndexedQuery {
  readonly filter: object;
  readonly hint: string;
}

/** The queries whose results together are a page: one, unless there are unusually many types. */
export async function queriesFor(
  userId: string,
  page: DeliveryPage,
  presentTypes: PresentTypes,
): Promise<IndexedQuery[]> {
  const { webhookId, eventId, type, state } = page;
  const common = { userId, _id: idRange(page), ...(webhookId !== undefined && { webhookId }) };
  const states = state === undefined ? deliveryStates : [state];
  if (eventId !== undefined) {
    const filter = { ...common, eventId, state: { $in: [...states] }, ...(type !== undefined && { type }) };
    return [{ filter, hint: 'eventDeliveries' }];
  }
  const owner = webhookId === undefined ? { userId } : { webhookId };
  const types = type === undefined ? await presentTypes(owner) : [type];
  const groups = types.length * states.length > maxRanges ? states.map((single) => [single]) : [states];
  const hint = webhookId === undefined ? 'ofUser' : 'ofWebhook';
  return groups.map((group) => ({ filter: { ...common, type: { $in: types }, state: { $in: [...group] } }, hint }));
}
