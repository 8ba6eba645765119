import type { CallStorage } from '../proxy/call-storage.ts';
import { kinds } from './kinds.ts';
import { ownedResponse, shownContainer } from './recorded-answer.ts';
import { metadataOf, namedObjects, requireOwned, storedReferences } from './references.ts';
import type { StoredObjects } from './service.ts';
import { originOf } from './stored-object.ts';

/** The records of what upstreams keep, as model calls need them. */
export function createCallStorage(storedObjects: StoredObjects): CallStorage {
  return {
    models: storedObjects.models,

    require: () => storedObjects.require(),

    requested(kind, apiRequest) {
      const metadata = kinds[kind].hasMetadata ? metadataOf(apiRequest) : undefined;
      return { kind, ...(metadata && { metadata }) };
    },

    async keepers(apiRequest, names, upstreams) {
      const references = await namedObjects(apiRequest);
      if (names) references.push(...storedReferences(apiRequest));
      else if (references.length === 0) return upstreams;
      const referred = { references, ...(names && { itemsIn: 'input' }) };
      return (await requireOwned(storedObjects, apiRequest, referred, upstreams)).keepers;
    },

    owned(answer, { keyId, endpoint, ...object }, background) {
      const made = { ...object, origin: originOf(keyId, endpoint) };
      return ownedResponse(answer, made, storedObjects, background ? { background } : {});
    },

    inContainer(answer, { keyId, endpoint, ...keeper }) {
      return shownContainer(answer, { ...keeper, origin: originOf(keyId, endpoint) }, storedObjects);
    },
  };
}
