import type { Principal } from '../../http/principal.ts';
import { mayCall } from '../allowed-models.ts';
import type { Upstream } from '../routing/upstream.ts';
import { storedObjectNotFound } from './not-found.ts';
import type { StoredReference } from './references.ts';
import type { StoredObjects } from './stored-objects.ts';

/**
 * Requires that stored objects belong to an account.
 * @returns the upstreams that keep all of them: one, or all upstreams where nothing is named
 * @throws GatewayError `response_not_found`, `conversation_not_found`, `chat_completion_not_found`, also where the upstream
 * that keeps it is no longer configured; `database_unavailable`
 */
export async function requireOwned(
  objects: StoredObjects,
  principal: Principal,
  references: readonly StoredReference[],
  upstreams: readonly Upstream[],
): Promise<readonly Upstream[]> {
  let keepers = upstreams;
  for (const reference of references) {
    const { id, kind } = reference;
    const found = await objects.find({ id, kind, userId: principal.userId });
    // a key that is limited to some models gets at what these have made
    const isAllowed = found !== null && (found.model === null || mayCall(principal, found.model));
    keepers = isAllowed ? keepers.filter(({ name }) => name === found.upstream) : [];
    if (keepers.length === 0) throw storedObjectNotFound(reference);
  }
  return keepers;
}
