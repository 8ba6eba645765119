import type { components } from '../api.d.ts';
import { withTimeRange } from '../http/incoming-time.ts';
import type { OperationTable } from '../http/operation.ts';
import type { ListedObject, ListedPage, ListStored } from './overview.ts';

type Schemas = components['schemas'];
type Kind = Schemas['StoredObjectKind'];

/** As its account sees it: that need not know which upstreams there are. */
function toBody({ id, kind, model, name, bytes, origin, createdAt, expiresAt }: ListedObject): Schemas['StoredObject'] {
  const { keyId = null, endpoint = null, parent = null } = origin;
  return {
    id,
    kind: kind as Kind,
    name,
    bytes,
    model,
    made_by: { api_key_id: keyId, endpoint, object_id: parent },
    created_at: createdAt.toISOString(),
    expires_at: expiresAt?.toISOString() ?? null,
  };
}

function toListBody<Body>({ objects, hasMore, totals }: ListedPage, body: (object: ListedObject) => Body) {
  const sums = totals?.map(({ kind, hasMore: has_more, ...sum }) => ({ kind: kind as Kind, ...sum, has_more }));
  return { data: objects.map(body), has_more: hasMore, ...(sums && { totals: sums }) };
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
        const body = toListBody(listed, (object) => ({ ...toBody(object), upstream: object.upstream }));
        return { status: 200, body };
      },
    },
  } satisfies Partial<OperationTable>;
}
