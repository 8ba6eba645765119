import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { ClientOptions } from 'ws';
import type { ApiRequest } from '../http/operation.ts';
import type { ModelCall } from '../options/options.ts';
import type { Connect } from '../outbound/connector.ts';
import { CallDeadline } from '../outbound/deadline.ts';
import { classify, type OutboundError, outboundError } from '../outbound/outbound-error.ts';
import { type HeaderValues, upstreamRequestHeaders, withAccountsIdempotencyKey } from '../proxy/headers.ts';
import type { ResponseStatus } from '../proxy/inspect-answer.ts';
import type { RelayDependencies } from '../proxy/relay.ts';
import { tryUpstreams } from '../proxy/retry.ts';
import { type Upstream, upstreamModelName, upstreamUrl } from '../proxy/upstream.ts';
import { CallPlace } from '../proxy/upstream-state.ts';
import { UpstreamSpan } from '../tracing/spans.ts';
import { withModel } from './query.ts';
import { CountedSocket } from './socket-memory.ts';

/** A WebSocket that is to be opened at an upstream. */
export interface UpstreamSocketRequest {
  /** Its endpoint is the path below the upstream's base URL, too. */
  readonly info: Pick<ModelCall, 'requestId' | 'principal' | 'endpoint'>;
  /** The client's. */
  readonly headers: IncomingHttpHeaders;
  /** The client's query, with its `?`. */
  readonly search: string;
  /** The model that the upstream is asked for, as callers name it; `undefined` where the handshake names none. */
  readonly model: string | undefined;
  /** Whether the upstream gets the secret of a client, and no key of the operator's. @default false */
  readonly isSecret?: boolean;
  readonly client: Pick<ApiRequest['client'], 'disconnected' | 'onDisconnect'>;
  readonly limits: SocketLimits;
}

/** What the other side of a socket may do. The types of `ws` do not know `closeTimeout` yet. */
export interface SocketLimits {
  /** The longest message. Bytes. */
  readonly maxPayload: number;
  /** The most frames that a message may come in: each takes some 100 bytes, however short it is. */
  readonly maxFragments: number;
  /** How long it may take to answer a close frame. Milliseconds. */
  readonly closeTimeout: number;
}

/** What an upstream has answered to a handshake. */
export interface UpstreamAnswer extends ResponseStatus {
  readonly headers: HeaderValues;
  /** Open, and paused until somebody listens; `undefined` where the upstream refuses. */
  readonly socket: CountedSocket | undefined;
  /** Of a refusal, as far as it is read. */
  readonly body: Buffer;
  readonly data: { destroy(): void };
}

/** How much is read of the body of a refusal. Bytes. */
const longestBody = 64 * 1024;

/** What servers answer that take no WebSocket on a path. */
const notTaken: ReadonlySet<number> = new Set([404, 405, 426, 501]);

/**
 * Whether an upstream takes no WebSocket on this path. Servers on uvicorn answer 403 without a body then, and no other refusal is
 * without one.
 */
export function takesNoWebSocket({ status, body }: Pick<UpstreamAnswer, 'status' | 'body'>): boolean {
  return (status >= 200 && status < 400) || notTaken.has(status) || (status === 403 && body.length === 0);
}

/**
 * Opens a WebSocket at the first upstream, or tries the next ones, as for any other call. One that takes no WebSockets is passed over.
 * @throws GatewayError when none can be reached
 */
export async function connectUpstream(
  deps: RelayDependencies,
  order: readonly [Upstream, ...Upstream[]],
  request: UpstreamSocketRequest,
): Promise<{ readonly upstream: Upstream; readonly answer: UpstreamAnswer }> {
  const { userId } = request.info.principal;
  const deadline = new CallDeadline(request.client, order[0].timeouts.total);
  const place = new CallPlace(userId);
  deps.retry.budget.earn();
  try {
    const { upstream, response } = await tryUpstreams(
      { userId, order, deadline, place },
      (next, onConnected) => tryUpstream(deps, next, request, deadline, onConnected),
      deps.retry,
    );
    return { upstream, answer: response };
  } finally {
    // only the responses that it makes take a place
    place.release();
    deadline.release();
  }
}

async function tryUpstream(
  { reports, idempotencySecret, propagateTrace }: RelayDependencies,
  upstream: Upstream,
  request: UpstreamSocketRequest,
  deadline: CallDeadline,
  onConnected: () => void,
): Promise<UpstreamAnswer> {
  const { info, headers: clientHeaders, search, limits } = request;
  const { requestId, principal, endpoint: path } = info;
  const model = request.model === undefined ? undefined : upstreamModelName(upstream, request.model);
  const span = UpstreamSpan.start({ upstream, method: 'GET', path, model, apiRequest: { requestId, principal } });
  const ownHeaders = withAccountsIdempotencyKey(clientHeaders, principal.userId, idempotencySecret);
  const forwarded = Object.entries(upstreamRequestHeaders(ownHeaders, upstream.headers, requestId));
  // not those of the client's own handshake, whatever an operator has forwarded: the client's key may be in them
  const headers = Object.fromEntries(forwarded.filter(([name]) => !name.startsWith('sec-websocket-')));
  const url = upstreamUrl(upstream, path, withModel(search, model)).replace(/^http/, 'ws');
  const startedAt = performance.now();
  try {
    const answer = await openSocket(url, deadline, {
      ...limits,
      ...(upstream.tunnel && { createConnection: tunnelled(upstream.tunnel, url, upstream.timeouts.connect) }),
      headers: propagateTrace && span ? span.addTo(headers) : headers,
      handshakeTimeout: upstream.timeouts.connect,
    });
    onConnected();
    span?.answered(answer.status);
    reports.responded(upstream, answer.status, performance.now() - startedAt);
    // what is wrong with a client's secret is not the operator's concern
    if (!answer.errorInside && !request.isSecret) reports.logAnswer(upstream, path, answer.status);
    return answer;
  } catch (error) {
    const { code } = error as OutboundError;
    span?.failed(code);
    if (!deadline.client.disconnected) reports.failed(upstream, path, code);
    throw error;
  } finally {
    span?.end();
  }
}

/**
 * How `ws` makes a connection through a proxy: it takes one from a callback, as Node does, which its types do not say. Its `handshakeTimeout` is only set on
 * sockets that Node makes, so it is set here; `ws` ends it.
 * @param timeout milliseconds
 */
function tunnelled(connect: Connect, url: string, timeout: number): NonNullable<ClientOptions['createConnection']> {
  const createConnection = (_options: unknown, done: (error: Error | null, socket?: Socket) => void): void => {
    connect(new URL(url.replace(/^ws/, 'http'))).then((socket) => done(null, socket.setTimeout(timeout)), done);
  };
  return createConnection as never;
}

/** Opens a WebSocket. Resolves with what the server answers, and rejects with an OutboundError. */
function openSocket(url: string, deadline: CallDeadline, options: ClientOptions): Promise<UpstreamAnswer> {
  return new Promise((resolve, reject) => {
    const socket = new CountedSocket(url, { ...options, perMessageDeflate: false, autoPong: false });
    const abort = (): void => socket.terminate();
    const done = (): void => deadline.removeEventListener('abort', abort);
    let upgrade: IncomingMessage;
    socket.on('upgrade', (response) => {
      upgrade = response;
    });
    socket.on('open', () => {
      done();
      socket.count(upgrade.socket, 'server');
      // no message may come before somebody listens
      socket.pause();
      const data = { destroy: abort };
      resolve({ status: 101, headers: upgrade.headers as HeaderValues, socket, body: Buffer.alloc(0), data });
    });
    socket.on('unexpected-response', (_request, response) => {
      readBody(response)
        .then((body) => resolve(refusal(response, body)))
        .catch((error) => reject(classify(error)))
        .finally(done);
    });
    socket.on('error', (error) => {
      done();
      reject(deadline.aborted ? classify(deadline.reason) : failureOf(error));
    });
    deadline.addEventListener('abort', abort);
  });
}

/** `ws` gives its own errors no code. */
function failureOf(error: Error): OutboundError {
  if (error.message === 'Opening handshake has timed out') return outboundError('connect_timeout', error);
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? outboundError('invalid_response', error) : classify(error);
}

function refusal({ statusCode: status = 502, headers }: IncomingMessage, body: Buffer): UpstreamAnswer {
  const isTaken = !takesNoWebSocket({ status, body });
  return {
    status,
    headers: headers as HeaderValues,
    socket: undefined,
    body,
    data: { destroy() {} },
    // the next upstream may take one
    ...(!isTaken && { errorInside: { status: 426, blamesRequest: true } }),
  };
}

async function readBody(response: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of response) {
    parts.push(part);
    length += part.length;
    if (length >= longestBody) break;
  }
  response.destroy();
  return Buffer.concat(parts).subarray(0, longestBody);
}
