import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type ErrorCode, isGatewayError, refuse } from '../errors.ts';
import { AccountTurns } from '../fairness/account-shares.ts';
import type { ApiRequest } from '../http/operation.ts';
import type { ResponseBody } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { mayCall } from '../proxy/admission.ts';
import { collect } from '../proxy/answer-body.ts';
import { hasLeast, parsed } from '../proxy/answer-result.ts';
import { CallDeadline } from '../proxy/call-deadline.ts';
import { failure, failureFrom } from '../proxy/failure.ts';
import { madeObjects } from './answer-ids.ts';
import type { StoredRelay } from './calls.ts';
import { kinds, type StoredCall, storedId, storedResult } from './kinds.ts';
import type { StoredObjectQuery } from './service.ts';
import type { StoredRelayDeps } from './stored-exchange.ts';
import type { StoredObject } from './stored-object.ts';
import { readStored } from './upstream-reads.ts';

const defaultLimit = 20;
const longestPage = 100;
/** How many are fetched at once. */
const concurrency = 8;
/** Lists of one account under way at once: each may hold a whole page, and asks its upstreams for each object. */
const listsAtOnce = 2;
/** A page for which as many objects were looked at ends early: what upstreams keep no longer is not in it. */
const longestLook = 200;
/** The same for a page that is empty: clients take that for the end. */
const longestSearch = 1_000;
/** A page that has as much ends early. Bytes. */
const pageBytes = 16 * 1024 * 1024;
/** Objects up to this size are read several at once, larger ones one after the other. Bytes. */
const concurrentReadLimit = pageBytes / concurrency;
/** There is no place for one more call at the upstream, perhaps because others of the same list have them. */
const placeErrors: ReadonlySet<ErrorCode> = new Set(['rate_limit_exceeded', 'overloaded']);
/** The largest object that is read. Bytes. */
const objectLimit = 16 * 1024 * 1024;

/** One list, and what was found for its page. */
interface ListCall {
  readonly call: StoredCall;
  readonly apiRequest: ApiRequest;
  readonly query: StoredObjectQuery;
  readonly deadline: CallDeadline;
  /** Objects with their bytes, as their upstreams keep them. */
  readonly found: { readonly id: string; readonly bytes: Buffer }[];
  /** Those that their upstreams keep no longer. */
  readonly gone: StoredObject[];
}

type ListDeps = Pick<StoredRelayDeps, 'upstreams' | 'retry' | 'storedObjects' | 'logger'>;

/** Lists an account's own stored objects: which they are says the gateway, what is in them their upstreams. */
export function createStoredList({ upstreams, retry, storedObjects, logger }: ListDeps): StoredRelay {
  const turns = new AccountTurns(listsAtOnce);

  return (call, apiRequest, res) => {
    const query = queryOf(call, apiRequest);
    return turns.run(query.userId, () => answer({ call, apiRequest, query }, res));
  };

  async function answer(asked: Pick<ListCall, 'call' | 'apiRequest' | 'query'>, res: ServerResponse): Promise<void> {
    const { client } = asked.apiRequest;
    if (client.disconnected) return;
    const longest = Math.max(0, ...upstreams.map(({ timeouts }) => timeouts.total));
    const deadline = new CallDeadline(client, longest);
    try {
      const list: ListCall = { ...asked, deadline, found: [], gone: [] };
      const body = await pageOf(list);
      await forget(list.gone);
      if (deadline.client.disconnected) return;
      const closed = once(res, 'close');
      res.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
      // a client that does not read keeps its account's turn, and no more memory than that
      await closed;
    } catch (error) {
      if (deadline.client.disconnected) return;
      throw error instanceof OutboundError ? failureFrom(error) : error;
    } finally {
      deadline.release();
    }
  }

  async function pageOf(list: ListCall): Promise<Buffer> {
    const { query, found } = list;
    let looked = 0;
    let { after } = query;
    for (;;) {
      const batchSize = Math.min(concurrency, query.limit - found.length);
      const listed = await storedObjects.list({ ...query, ...(after !== undefined && { after }), limit: batchSize });
      const objects = listed.slice(0, batchSize);
      const last = await add(objects, list);
      const hasMore = last !== listed.at(-1);
      after = last?.id;
      looked += objects.length;
      const isFull = found.length >= query.limit || sizeOf(found) > pageBytes;
      if (!hasMore || isFull || looked >= (found.length > 0 ? longestLook : longestSearch)) {
        return listOf(found, hasMore, hasMore ? after : found.at(-1)?.id);
      }
    }
  }

  /** Adds objects to the page until it is full; returns the last that was looked at. */
  async function add(objects: readonly StoredObject[], { call, apiRequest, deadline, found, gone }: ListCall) {
    /** The bytes of an object; `null` where its upstream keeps it no longer, `undefined` where there is no such upstream. */
    async function read({ id, upstream: name }: StoredObject, limit: number) {
      const upstream = upstreams.find((candidate) => candidate.name === name);
      if (!upstream) return undefined;
      const path = call.path.replace(/\{\w+\}/, () => id);
      return readStored({ apiRequest, deadline, upstream, path }, retry, bytesWithin(limit));
    }

    /** The same, one of several at once; `'alone'` where it has to be read without the others. */
    async function readAtOnce(object: StoredObject) {
      try {
        const body = await read(object, concurrentReadLimit);
        return body === 'too large' ? 'alone' : body;
      } catch (error) {
        if (!isGatewayError(error) || !placeErrors.has(error.code)) throw error;
        return 'alone';
      }
    }

    const readable = objects.filter(({ model }) => model === null || mayCall(apiRequest.principal, model));
    const bodies = await Promise.all(readable.map(readAtOnce));
    for (const [i, object] of readable.entries()) {
      const early = bodies[i];
      const body = early === 'alone' ? await read(object, objectLimit) : early;
      if (body === 'too large') throw failure('upstream_invalid_response');
      if (body === null) gone.push(object);
      if (body && object.isMissing) await storedObjects.found(object);
      if (body) found.push({ id: object.id, bytes: body });
      if (body && call.showsMade) {
        const made = madeObjects(JSON.parse(body.toString()) ?? {}, call.showsMade);
        await storedObjects.addMade(made, object);
      }
      if (sizeOf(found) > pageBytes) return object;
    }
    return objects.at(-1);
  }

  async function forget(gone: readonly StoredObject[]): Promise<void> {
    try {
      await Promise.all(gone.map((object) => storedObjects.missing(object)));
    } catch (error) {
      logger.warn('what upstreams do not know any more was not noted', { reason: String(error) });
    }
  }
}

/** @throws GatewayError `invalid_value` */
function queryOf({ kind, lists }: StoredCall, { principal, query }: ApiRequest): StoredObjectQuery {
  const { order: usualOrder = 'asc', leastAsked = 1, mostAsked = longestPage } = lists ?? {};
  const {
    after,
    before,
    limit = String(defaultLimit),
    order = usualOrder,
    model,
  } = query as Readonly<Record<string, string>>;
  if (!/^\d{1,5}$/.test(limit) || Number(limit) < leastAsked || Number(limit) > mostAsked) {
    refuse('invalid_value', 'limit', `must be a whole number from ${leastAsked} to ${mostAsked}`);
  }
  if (before !== undefined) refuse('invalid_value', 'before', 'is not served; go on with after, in the other order');
  if (order !== 'asc' && order !== 'desc') refuse('invalid_value', 'order', 'must be one of asc, desc');
  if (after !== undefined && !storedId.test(after)) refuse('invalid_value', 'after', 'must be an id');
  const metadata = Object.entries(query).flatMap(([name, value]) => {
    const key = /^metadata\[(.*)\]$/s.exec(name)?.[1];
    return key === undefined ? [] : [[key, String(value)] as const];
  });
  const { filter } = kinds[kind];
  const wanted = filter === undefined ? undefined : query[filter];
  if (filter !== undefined && typeof wanted === 'string' && wanted !== '') metadata.push([filter, wanted]);
  return {
    userId: principal.userId,
    kind,
    limit: Math.min(Number(limit), longestPage),
    order,
    ...(after !== undefined && { after }),
    ...(model !== undefined && { model }),
    ...(metadata.length > 0 && { metadata: Object.fromEntries(metadata) }),
  };
}

/** Reads an object in JSON, as the bytes that are sent; `'too large'` where it exceeds the limit, in bytes. */
function bytesWithin(limit: number) {
  return async (body: ResponseBody, onProgress: () => void): Promise<Buffer | 'too large'> => {
    const { bytes, whole } = await collect(body, limit, onProgress);
    if (whole && hasLeast(parsed(bytes.toString()), storedResult)) return bytes;
    body.destroy();
    if (!whole) return 'too large';
    throw failure('upstream_invalid_response');
  };
}

function sizeOf(found: ListCall['found']): number {
  return found.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

/** @param lastId what the next page follows */
function listOf(found: ListCall['found'], hasMore: boolean, lastId: string | undefined): Buffer {
  const ids = { first_id: found[0]?.id ?? null, last_id: lastId ?? null, has_more: hasMore };
  const comma = Buffer.from(',');
  const data = found.flatMap(({ bytes }, i) => (i === 0 ? [bytes] : [comma, bytes]));
  return Buffer.concat([
    Buffer.from('{"object":"list","data":['),
    ...data,
    Buffer.from(`],${JSON.stringify(ids).slice(1)}`),
  ]);
}
