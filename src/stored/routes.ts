import type { components } from '../api.d.ts';
import { withTimeRange } from '../http/incoming-time.ts';
import type { OperationTable } from '../http/operation.ts';
import type { StoredObjectDocument } from './model.ts';
import type { ListedPage, ListStored } from './overview.ts';

type Schemas = components['schemas'];

/** As its account sees it: that need not know which upstreams there are. */
function toBody(document: StoredObjectDocument): Schemas['StoredObject'] {
  const { _id: id, kind, model, name = null, bytes = null, origin = {}, createdAt, expiresAt } = document;
  const { keyId = null, endpoint = null, parent = null } = origin;
  return {
    id,
    // no other kind is listed
    kind: kind as Schemas['StoredObjectKind'],
    name,
    bytes,
    model,
    made_by: { api_key_id: keyId, endpoint, object_id: parent },
    created_at: createdAt.toISOString(),
    expires_at: expiresAt?.toISOString() ?? null,
  };
}

function toListBody<Body>({ documents, hasMore, totals }: ListedPage, body: (document: StoredObjectDocument) => Body) {
  return { data: documents.map(body), has_more: hasMore, ...(totals && { totals }) };
}

/** The operations on what upstreams keep, of the caller's account, or with the scope `admin` of any account. */
export function storageOperations(list: ListStored) {
  return {
    listStoredObjects: {
      async handle({ principal: { userId, models }, query }) {
        return { status: 200, body: toListBody(await list({ userId, models }, withTimeRange(query)), toBody) };
      },
    },
    listUserStoredObjects: {
      async handle({ params: { user_id: userId }, query }) {
        const listed = await list({ userId }, withTimeRange(query));
        const body = toListBody(listed, (document) => ({ ...toBody(document), upstream: document.upstream }));
        return { status: 200, body };
      },
    },
  } satisfies Partial<OperationTable>;
}
