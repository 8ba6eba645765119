import type { ServerResponse } from 'node:http';
import { GatewayError } from '../../errors.ts';
import type { ApiRequest } from '../../http/operation.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import { mayCall } from '../allowed-models.ts';
import { CallDeadline } from '../call-deadline.ts';
import { failureFrom } from '../failure.ts';
import type { StoredObject, StoredObjectQuery } from '../ownership/stored-objects.ts';
import { fetchStored } from './fetch-stored.ts';
import type { StoredRelayDependencies } from './stored-relay.ts';

/** Answers the list of an account's stored chat completions. */
export type StoredChatList = (call: ApiRequest, res: ServerResponse) => Promise<void>;

const kind = 'chat_completion';
const defaultLimit = 20;
const longestPage = 100;
/** How many are fetched at once. */
const atOnce = 8;
/** A page for which as many objects were looked at ends early: what upstreams keep no longer is not in it. */
const longestLook = 200;
/** A page that has as much ends early. Bytes. */
const pageBytes = 16 * 1024 * 1024;

function invalid(param: string, expected: string): GatewayError {
  return new GatewayError('invalid_value', `${param}: must be ${expected}`, { param });
}

/** @throws GatewayError `invalid_value` */
function queryOf({ principal, query }: ApiRequest): StoredObjectQuery {
  const { after, limit = String(defaultLimit), order = 'asc', model } = query as Readonly<Record<string, string>>;
  if (!/^\d{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > longestPage) {
    throw invalid('limit', `a whole number from 1 to ${longestPage}`);
  }
  if (order !== 'asc' && order !== 'desc') throw invalid('order', 'one of asc, desc');
  const metadata = Object.entries(query).flatMap(([name, value]) => {
    const key = /^metadata\[(.*)\]$/s.exec(name)?.[1];
    return key === undefined ? [] : [[key, String(value)] as const];
  });
  return {
    userId: principal.userId,
    kind,
    limit: Number(limit),
    order,
    ...(after !== undefined && { after }),
    ...(model !== undefined && { model }),
    ...(metadata.length > 0 && { metadata: Object.fromEntries(metadata) }),
  };
}

/** One page: the objects with their bytes, as their upstreams keep them. */
interface Page {
  readonly found: { readonly id: string; readonly bytes: Buffer }[];
  /** Those that their upstreams keep no longer. */
  readonly gone: StoredObject[];
  readonly hasMore: boolean;
  /** What the next page follows. */
  readonly lastId: string | undefined;
}

function listOf({ found, hasMore, lastId }: Page): Buffer {
  const ids = { first_id: found[0]?.id ?? null, last_id: lastId ?? null, has_more: hasMore };
  const comma = Buffer.from(',');
  const data = found.flatMap(({ bytes }, i) => (i === 0 ? [bytes] : [comma, bytes]));
  return Buffer.concat([
    Buffer.from('{"object":"list","data":['),
    ...data,
    Buffer.from(`],${JSON.stringify(ids).slice(1)}`),
  ]);
}

/** Lists an account's own stored chat completions: which they are says the gateway, what is in them their upstreams. */
export function createStoredChatList(deps: StoredRelayDependencies): StoredChatList {
  const { upstreams, storedObjects, logger } = deps;

  async function pageOf(query: StoredObjectQuery, call: ApiRequest, deadline: CallDeadline): Promise<Page> {
    const found: Page['found'] = [];
    const gone: StoredObject[] = [];
    let bytes = 0;
    let looked = 0;
    let { after } = query;
    for (;;) {
      const wanted = Math.min(atOnce, query.limit - found.length);
      const listed = await storedObjects.list({ ...query, ...(after !== undefined && { after }), limit: wanted });
      const objects = listed.slice(0, wanted);
      const readable = objects.filter(({ model }) => model === null || mayCall(call.principal, model));
      const fetched = await Promise.all(
        readable.map(({ id, upstream: name }) => {
          const upstream = upstreams.find((candidate) => candidate.name === name);
          return upstream && fetchStored(deps, { call, deadline, upstream, path: `/chat/completions/${id}` });
        }),
      );
      readable.forEach((object, i) => {
        const body = fetched[i];
        if (body === null) gone.push(object);
        if (!body) return;
        found.push({ id: object.id, bytes: body });
        bytes += body.length;
      });
      const hasMore = listed.length > objects.length;
      after = objects.at(-1)?.id;
      looked += objects.length;
      if (!hasMore || found.length >= query.limit || bytes > pageBytes || looked >= longestLook) {
        return { found, gone, hasMore, lastId: hasMore ? after : found.at(-1)?.id };
      }
    }
  }

  async function forget(gone: readonly StoredObject[]): Promise<void> {
    try {
      await Promise.all(gone.map((object) => storedObjects.remove(object)));
    } catch (error) {
      logger.warn('what upstreams keep no longer was not forgotten', { reason: String(error) });
    }
  }

  return async function listStoredChats(call, res) {
    const query = queryOf(call);
    const longest = Math.max(0, ...upstreams.map(({ timeouts }) => timeouts.total));
    const deadline = new CallDeadline(call.client, longest);
    try {
      const page = await pageOf(query, call, deadline);
      await forget(page.gone);
      const body = listOf(page);
      if (deadline.clientDisconnected) return;
      res.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
    } catch (error) {
      if (deadline.clientDisconnected) return;
      throw error instanceof OutboundError ? failureFrom(error) : error;
    } finally {
      deadline.release();
    }
  };
}
