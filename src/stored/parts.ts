import { AccountTurns } from '../fairness/account-shares.ts';
import { JsonMembers } from '../http/json/search.ts';
import { foldCase } from '../http/json/tokens.ts';
import type { ApiRequest } from '../http/operation.ts';
import type { CallDeadline } from '../outbound/deadline.ts';
import type { ResponseBody } from '../outbound/exchange.ts';
import { mayCall } from '../proxy/admission.ts';
import type { RetryPolicy } from '../proxy/retry.ts';
import type { Upstream } from '../proxy/upstream.ts';
import { idParameter, isStoredId, kinds, type StoredCall, type StoredKind, storedCalls } from './kinds.ts';
import { storedObjectNotFound } from './references.ts';
import type { StoredObjects } from './service.ts';
import type { StoredObject } from './stored-object.ts';
import { readStored } from './upstream-reads.ts';

/** What is known as a part of an object. */
export type PartKind = 'item' | 'container_file' | 'skill_version' | 'file' | 'file_batch';

/**
 * What further parameters of paths name, by the kind of the object that the first one names: a call goes up only with what is known to be a part of
 * its object, or is listed there. A file that was deleted stays in its vector stores.
 */
const partKinds: { readonly [Kind in StoredKind]?: { readonly [Param in string]?: PartKind } } = {
  response: { item_id: 'item' },
  conversation: { item_id: 'item' },
  container: { file_id: 'container_file' },
  skill: { version: 'skill_version' },
  vector_store: { file_id: 'file', batch_id: 'file_batch' },
};

/** What a parameter names in calls about objects of a kind; `undefined` where that is no part. */
export function partKind(kind: StoredKind, param: string): PartKind | undefined {
  return partKinds[kind]?.[param];
}

/** The path at which an upstream lists the parts of one object that a parameter names; `undefined` where it lists none. */
function listPath(kind: StoredKind, param: string): string | undefined {
  const isList = ({ method, path, showsParts }: StoredCall): boolean =>
    method === 'GET' && showsParts?.list === 'data' && showsParts.param === param && path.split('{').length === 2;
  return Object.values(storedCalls).find((call) => call.kind === kind && isList(call))?.path;
}

/** A part of an object that a call names. */
interface NamedPart {
  readonly kind: PartKind;
  readonly id: string;
  /** Where it stands. */
  readonly param: string;
  /** The path at which an upstream lists those of one object. */
  readonly list: string | undefined;
}

/** A call about an object that its account owns. */
interface OwnedCall {
  readonly apiRequest: ApiRequest;
  readonly object: StoredObject;
  /** That keeps it. */
  readonly upstream: Upstream;
  readonly deadline: CallDeadline;
}

/** One page of an upstream's list. */
interface PartPage {
  /** Of its parts, by each member that names them. */
  readonly ids: ReadonlySet<string>;
  /** What the next page follows; `undefined` where there is none. */
  readonly next: string | undefined;
}

/** The most pages that are read to find a part that is not known. */
const mostPages = 10;
const pageSize = 100;
/** The longest member that is read of an object in a list. Bytes. */
const longestMember = 4_096;

/** What a query says where a page of a list begins, however its name is written. */
const cursor = /^(?:after|before)(?:\[.*)?$/;

/** The parts of its object that a call names: in its path, and where the page of a list of them begins. */
function namedParts(call: StoredCall, { params, search }: Pick<ApiRequest, 'params' | 'search'>): NamedPart[] {
  /** @param from where it stands @param param what names its kind */
  const named = (id: string, param: string, from = param): NamedPart[] => {
    const kind = partKind(call.kind, param);
    return kind ? [{ kind, id, param: from, list: listPath(call.kind, param) }] : [];
  };
  const inPath = Object.entries(params as Readonly<Record<string, string>>).flatMap(([param, id]) =>
    param === idParameter(call) ? [] : named(id, param),
  );
  const { showsParts } = call;
  if (showsParts?.list !== 'data' || call.method !== 'GET') return inPath;
  const cursors = [...new URLSearchParams(search)].filter(([name, id]) => id !== '' && cursor.test(foldCase(name)));
  return [...inPath, ...cursors.flatMap(([name, id]) => named(id, showsParts.param, name))];
}

/**
 * Makes the check that what a call names is a part of its object. A part is known by the answer that made or showed it. One that is not,
 * for it was made before, or by a model, or is forgotten, is looked for in the object's own list at its upstream; its id never goes up before.
 */
export function createPartCheck({
  storedObjects,
  retry,
}: {
  readonly storedObjects: Pick<StoredObjects, 'find' | 'isKnown' | 'addShown'>;
  readonly retry: RetryPolicy;
}) {
  // each may read many pages
  const turns = new AccountTurns(1);

  /** @throws GatewayError `item_not_found`, `file_not_found` and so on; `database_unavailable`; with the code of an upstream's failure */
  return async function requireParts(call: StoredCall, owned: OwnedCall): Promise<void> {
    const { userId } = owned.apiRequest.principal;
    for (const part of namedParts(call, owned.apiRequest)) {
      const isPart = (await isKnown(part, owned)) ?? (await turns.run(userId, () => isListed(part, owned)));
      if (!isPart) throw storedObjectNotFound(part);
    }
  };

  /** Whether a call may name a part; `undefined` where nothing is known of it. */
  async function isKnown({ kind, id }: NamedPart, { apiRequest, object, upstream }: OwnedCall) {
    const { principal } = apiRequest;
    const found = await storedObjects.find({ kind, id, userId: principal.userId, origin: { parent: object.id } });
    // a file has an owner, and no part of an object is another account's
    if (!found) return kind === 'file' && (await storedObjects.isKnown(id)) ? false : undefined;
    return found.upstream === upstream.name && (found.model === null || mayCall(principal, found.model));
  }

  /** Whether the list of an object has a part. What the list has is known from then on. */
  async function isListed({ kind, id, list }: NamedPart, { apiRequest, object, upstream, deadline }: OwnedCall) {
    if (list === undefined || !isStoredId(id)) return false;
    const path = list.replace(/\{\w+\}/, () => encodeURIComponent(object.id));
    const { partNames = ['id'] } = kinds[kind];
    let search = `?limit=${pageSize}`;
    for (let pages = 0; pages < mostPages; pages += 1) {
      const read = (body: ResponseBody, onProgress: () => void) => pageOf(body, partNames, onProgress);
      const page = await readStored({ apiRequest, deadline, upstream, path, search }, retry, read);
      if (!page) return false;
      const { ids, next } = page;
      if (kind !== 'file' && kind !== 'file_batch') {
        await storedObjects.addShown(
          [...ids].map((each) => ({ kind, id: each })),
          object,
        );
      }
      if (ids.has(id)) return true;
      const following = `?limit=${pageSize}&after=${next}`;
      // an upstream that does not go on would answer the same page again
      if (next === undefined || following === search) return false;
      search = following;
    }
    return false;
  }
}

/** Reads a page of a list, however large its objects are. */
async function pageOf(body: ResponseBody, names: readonly string[], onProgress: () => void): Promise<PartPage> {
  const ids = new Set<string>();
  let next: string | undefined;
  let hasMore = false;
  const parts = new JsonMembers({
    list: 'data',
    names,
    keepLimit: longestMember,
    onMember(name, value) {
      if (!isStoredId(value)) return;
      ids.add(value);
      if (name === 'id') next = value;
    },
  });
  const page = new JsonMembers({
    names: ['has_more'],
    keepLimit: longestMember,
    onMember: (_, value) => {
      hasMore = value === true;
    },
  });
  for await (const chunk of body.toReadable(onProgress) as AsyncIterable<Buffer>) {
    parts.read(chunk);
    page.read(chunk);
  }
  return { ids, next: hasMore ? next : undefined };
}
