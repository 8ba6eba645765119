import type { Principal } from '../../http/principal.ts';
import { mayCall } from '../admission.ts';
import type { Upstream } from '../upstream.ts';
import { storedObjectNotFound } from './not-found.ts';
import type { StoredReference } from './references.ts';
import type { StoredObject, StoredObjects } from './stored-objects.ts';

/** Stored objects of an account, and the upstreams that keep all of them: one, or all upstreams where nothing is named. */
export interface Owned {
  readonly objects: readonly StoredObject[];
  readonly keepers: readonly Upstream[];
}

/** Those of the upstreams that keep an object, if the key may use it. */
export function keepersOf(
  object: StoredObject | null,
  principal: Principal,
  upstreams: readonly Upstream[],
): readonly Upstream[] {
  // a key that is limited to some models gets at what these have made
  const isAllowed = object !== null && (object.model === null || mayCall(principal, object.model));
  return isAllowed ? upstreams.filter(({ name }) => name === object.upstream) : [];
}

/**
 * Requires that stored objects belong to an account.
 * @throws GatewayError `response_not_found`, `conversation_not_found`, `chat_completion_not_found`, also where the upstream
 * that keeps it is no longer configured; `database_unavailable`
 */
export async function requireOwned(
  objects: StoredObjects,
  principal: Principal,
  references: readonly StoredReference[],
  upstreams: readonly Upstream[],
): Promise<Owned> {
  let keepers = upstreams;
  const ownedObjects: StoredObject[] = [];
  for (const reference of references) {
    const { id, kind } = reference;
    const object = await objects.find({ id, kind, userId: principal.userId });
    keepers = keepersOf(object, principal, keepers);
    if (object === null || keepers.length === 0) throw storedObjectNotFound(reference);
    ownedObjects.push(object);
  }
  return { objects: ownedObjects, keepers };
}
