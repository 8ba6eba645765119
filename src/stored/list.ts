import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type ErrorCode, isGatewayError, refuse } from '../errors.ts';
import { AccountTurns } from '../fairness/account-shares.ts';
import type { ApiRequest } from '../http/operation.ts';
import { CallDeadline } from '../outbound/deadline.ts';
import type { ResponseBody } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { mayCall } from '../proxy/admission.ts';
import { collect, hasLeast, parsed } from '../proxy/answer-body.ts';
import { failure, failureFrom } from '../proxy/failure.ts';
import { madeObjects } from './answer-ids.ts';
import type { StoredRelay } from './calls.ts';
import { kinds, type StoredCall, storedId, storedResult } from './kinds.ts';
import { ownAddress } from './message-batch.ts';
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

type ListDeps = Pick<StoredRelayDeps, 'upstreams' | 'retry' | 'storedObjects' | 'logger'>;

/** Lists an account's own stored objects: which they are says the gateway, what is in them their upstreams. */
export function createStoredList(deps: ListDeps): StoredRelay {
  const turns = new AccountTurns(listsAtOnce);

  return (call, apiRequest, res) => {
    const query = queryOf(call, apiRequest);
    return turns.run(query.userId, async () => {
      if (!apiRequest.client.disconnected) await new StoredList(deps, call, apiRequest, query).answer(res);
    });
  };
}

/** An object with its bytes, as its upstream keeps it. */
interface FoundObject {
  readonly id: string;
  readonly bytes: Buffer;
}

/** One list, and what was found for its page. */
class StoredList {
  readonly #deps: ListDeps;
  readonly #call: StoredCall;
  readonly #apiRequest: ApiRequest;
  readonly #query: StoredObjectQuery;
  readonly #deadline: CallDeadline;
  readonly #found: FoundObject[] = [];
  /** Those that their upstreams keep no longer. */
  readonly #gone: StoredObject[] = [];

  constructor(deps: ListDeps, call: StoredCall, apiRequest: ApiRequest, query: StoredObjectQuery) {
    const longest = Math.max(0, ...deps.upstreams.map(({ timeouts }) => timeouts.total));
    this.#deps = deps;
    this.#call = call;
    this.#apiRequest = apiRequest;
    this.#query = query;
    this.#deadline = new CallDeadline(apiRequest.client, longest);
  }

  async answer(res: ServerResponse): Promise<void> {
    const { client } = this.#apiRequest;
    try {
      const body = await this.#page();
      await this.#forget();
      if (client.disconnected) return;
      const closed = once(res, 'close');
      res.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
      // a client that does not read keeps its account's turn, and no more memory than that
      await closed;
    } catch (error) {
      if (client.disconnected) return;
      throw error instanceof OutboundError ? failureFrom(error) : error;
    } finally {
      this.#deadline.release();
    }
  }

  async #page(): Promise<Buffer> {
    const { storedObjects } = this.#deps;
    const query = this.#query;
    const found = this.#found;
    let looked = 0;
    let { after } = query;
    for (;;) {
      const batchSize = Math.min(concurrency, query.limit - found.length);
      const listed = await storedObjects.list({ ...query, ...(after !== undefined && { after }), limit: batchSize });
      const objects = listed.slice(0, batchSize);
      const last = await this.#add(objects);
      const hasMore = last !== listed.at(-1);
      after = last?.id;
      looked += objects.length;
      const isFull = found.length >= query.limit || sizeOf(found) > pageBytes;
      if (!hasMore || isFull || looked >= (found.length > 0 ? longestLook : longestSearch)) {
        return listOf(found, hasMore, hasMore ? after : found.at(-1)?.id, this.#apiRequest.dialect);
      }
    }
  }

  /** Adds objects to the page until it is full; returns the last that was looked at. */
  async #add(objects: readonly StoredObject[]): Promise<StoredObject | undefined> {
    const { storedObjects } = this.#deps;
    const { showsMade } = this.#call;
    const { principal } = this.#apiRequest;
    const readable = objects.filter(({ model }) => model === null || mayCall(principal, model));
    const bodies = await Promise.all(readable.map((object) => this.#readAtOnce(object)));
    for (const [i, object] of readable.entries()) {
      const early = bodies[i];
      const body = early === 'alone' ? await this.#read(object, objectLimit) : early;
      if (body === 'too large') throw failure('upstream_invalid_response');
      if (body === null) this.#gone.push(object);
      if (body && object.isMissing) await storedObjects.found(object);
      if (body) this.#found.push({ id: object.id, bytes: body });
      if (body && showsMade) {
        const made = madeObjects(JSON.parse(body.toString()) ?? {}, showsMade);
        await storedObjects.addMade(made, object);
      }
      if (sizeOf(this.#found) > pageBytes) return object;
    }
    return objects.at(-1);
  }

  /** The bytes of an object; `null` where its upstream keeps it no longer, `undefined` where there is no such upstream. */
  async #read({ id, upstream: name }: StoredObject, limit: number) {
    const { upstreams, retry } = this.#deps;
    const upstream = upstreams.find((candidate) => candidate.name === name);
    if (!upstream?.speaks.includes(this.#apiRequest.dialect)) return undefined;
    const path = this.#call.path.replace(/\{\w+\}/, () => id);
    const read = { apiRequest: this.#apiRequest, deadline: this.#deadline, upstream, path };
    const bytes = await readStored(read, retry, bytesWithin(limit));
    return this.#call.showsAddress && Buffer.isBuffer(bytes) ? ownAddress(bytes) : bytes;
  }

  /** The same, one of several at once; `'alone'` where it has to be read without the others. */
  async #readAtOnce(object: StoredObject) {
    try {
      const body = await this.#read(object, concurrentReadLimit);
      return body === 'too large' ? 'alone' : body;
    } catch (error) {
      if (!isGatewayError(error) || !placeErrors.has(error.code)) throw error;
      return 'alone';
    }
  }

  async #forget(): Promise<void> {
    const { storedObjects, logger } = this.#deps;
    try {
      await Promise.all(this.#gone.map((object) => storedObjects.missing(object)));
    } catch (error) {
      logger.warn('what upstreams do not know any more was not noted', { reason: String(error) });
    }
  }
}

/** @throws GatewayError `invalid_value` */
function queryOf({ kind, lists }: StoredCall, { principal, query }: ApiRequest): StoredObjectQuery {
  const { order: usualOrder = 'asc', leastAsked = 1, mostAsked = longestPage } = lists ?? {};
  const {
    after_id: afterId,
    page = afterId,
    after = page,
    before_id: beforeId,
    before = beforeId,
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

function sizeOf(found: readonly FoundObject[]): number {
  return found.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

/** @param lastId what the next page follows */
function listOf(
  found: readonly FoundObject[],
  hasMore: boolean,
  lastId: string | undefined,
  dialect: ApiRequest['dialect'],
): Buffer {
  const ids = {
    ...{ first_id: found[0]?.id ?? null, last_id: lastId ?? null, has_more: hasMore },
    // Anthropic's clients ask for pages of files by this
    ...(dialect === 'anthropic' && { next_page: hasMore ? lastId : null }),
  };
  const comma = Buffer.from(',');
  const data = found.flatMap(({ bytes }, i) => (i === 0 ? [bytes] : [comma, bytes]));
  return Buffer.concat([
    Buffer.from('{"object":"list","data":['),
    ...data,
    Buffer.from(`],${JSON.stringify(ids).slice(1)}`),
  ]);
}
