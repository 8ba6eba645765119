import type { Principal } from '../../http/principal.ts';
import type { Upstream } from '../upstream.ts';
import type { InputItem } from './input-items.ts';
import { storedObjectNotFound } from './not-found.ts';
import { keepersOf } from './require-owned.ts';
import type { StoredObjects } from './stored-objects.ts';

/**
 * Requires that the items in an input are no other account's, and that the account knows those that it only refers to. An item
 * that comes with its content may have any id that no account has been shown: clients send back what was never stored, too.
 * @param upstreams that keep everything else the call needs
 * @returns those of them that keep the items it refers to
 * @throws GatewayError `item_not_found`, `database_unavailable`
 */
export async function requireOwnItems(
  objects: StoredObjects,
  principal: Principal,
  items: readonly InputItem[],
  upstreams: readonly Upstream[],
): Promise<readonly Upstream[]> {
  if (items.length === 0) return upstreams;
  const { userId } = principal;
  const { own, foreign } = await objects.findItems({ ids: items.map(({ id }) => id), userId });
  let keepers = upstreams;
  for (const { id, param, isReference } of items) {
    const reference = { kind: 'item', id, param } as const;
    if (!isReference) {
      if (foreign.has(id)) throw storedObjectNotFound(reference);
      continue;
    }
    const object = own.get(id) ?? (await objects.find({ ...reference, userId }));
    keepers = keepersOf(object, principal, keepers);
    if (keepers.length === 0) throw storedObjectNotFound(reference);
  }
  return keepers;
}
