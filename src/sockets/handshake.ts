import { type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import { GatewayError, refuse } from '../errors.ts';
import { isSameOrigin, sendsKey } from '../http/authentication.ts';
import type { RelayNote } from '../http/operation.ts';
import { type ClientDisconnect, pathOf } from '../http/request.ts';
import type { Logger } from '../options/options.ts';
import { failure, isMasked, loggableError, maskedError, requireRelayable } from '../proxy/failure.ts';
import { setResponseHeaders } from '../proxy/headers.ts';
import type { Upstream } from '../proxy/upstream.ts';
import { type SocketLimits, takesNoWebSocket, type UpstreamAnswer } from './connect.ts';
import { CountedSocket } from './socket-memory.ts';

/**
 * The endpoints that take WebSockets, by their paths below `/v1` and below an upstream's base URL. Where one takes HTTP too, clients fall back to that. A session
 * has one model, that of its handshake, and may be opened with an ephemeral secret.
 */
const endpoints = [
  { operation: 'connectRealtime', path: '/realtime', isSession: true, hasHttp: false },
  { operation: 'connectRealtimeTranslation', path: '/realtime/translations', isSession: true, hasHttp: false },
  { operation: 'connectResponses', path: '/responses', isSession: false, hasHttp: true },
] as const;

export type SocketEndpoint = (typeof endpoints)[number];

/** The endpoint that a request asks for a WebSocket of (RFC 6455, section 4.1); `undefined` for any other request. */
export function socketEndpointOf(req: IncomingMessage): SocketEndpoint | undefined {
  if (req.method !== 'GET' || req.headers.upgrade?.toLowerCase() !== 'websocket') return undefined;
  const path = pathOf(req).replace(/\/$/, '');
  return endpoints.find((endpoint) => path === `/v1${endpoint.path}`);
}

/** One handshake, on its way to a socket. */
export interface Handshake {
  readonly endpoint: SocketEndpoint;
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly id: string;
  readonly client: ClientDisconnect;
  readonly relayed: RelayNote;
}

/** RFC 9110, section 5.6.2. */
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** @throws GatewayError where the handshake is not that of RFC 6455 */
export function requireHandshake(req: IncomingMessage): void {
  const { headers } = req;
  const version = headers['sec-websocket-version'];
  if (version !== '13' && version !== '8') {
    throw new GatewayError('invalid_value', 'Sec-WebSocket-Version: must be 13', {
      param: 'sec-websocket-version',
      headers: { 'sec-websocket-version': '13, 8' },
    });
  }
  if (!/^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '')) {
    refuse('invalid_value', 'sec-websocket-key', 'must be 16 bytes in base64');
  }
  const protocols = offeredProtocols(req);
  if (!protocols.every((name) => token.test(name)) || new Set(protocols).size < protocols.length) {
    refuse('invalid_value', 'sec-websocket-protocol', 'must be a list of different names');
  }
}

/** Browsers cannot set headers, so OpenAI's clients send some as subprotocols. */
const keyProtocol = 'openai-insecure-api-key.';
const betaProtocol = 'openai-beta.';
const secretProtocols = [keyProtocol, 'openai-organization.', 'openai-project.'];

function offeredProtocols({ headers }: IncomingMessage): string[] {
  return headers['sec-websocket-protocol']?.split(',').map((name) => name.trim()) ?? [];
}

/**
 * Turns what is sent as subprotocols into the headers that they stand for: a key into `Authorization`, and `openai-beta.realtime-v1` into
 * `OpenAI-Beta: realtime=v1`. A header that is sent counts, and not the subprotocol.
 */
export function readSubprotocols(req: IncomingMessage): void {
  for (const protocol of offeredProtocols(req)) {
    if (protocol.startsWith(keyProtocol)) {
      req.headers.authorization ??= `Bearer ${protocol.slice(keyProtocol.length)}`;
    } else if (protocol.startsWith(betaProtocol)) {
      req.headers['openai-beta'] ??= protocol.slice(betaProtocol.length).replace(/-(v\d+)$/, '=$1');
    }
  }
}

/**
 * Refuses what a page of another site asks for without a key. A browser adds the cookies of the user to a handshake of any page, and no
 * preflight asks first.
 * @throws GatewayError `cross_origin_request`
 */
export function requireOwnPage(req: IncomingMessage): void {
  if (sendsKey(req) || isSameOrigin(req)) return;
  throw new GatewayError('cross_origin_request', 'A page of another origin needs an API key for a WebSocket');
}

/** The subprotocol that is chosen of those that are offered: never one with a secret in it. */
function chooseProtocol(offered: ReadonlySet<string>): string | false {
  if (offered.has('realtime')) return 'realtime';
  return [...offered].find((name) => !secretProtocols.some((secret) => name.startsWith(secret))) ?? false;
}

/** A client that ends its side before it has a socket has left. */
function leave(this: Duplex): void {
  this.destroy();
}

/** An HTTP response over the connection of a handshake. */
export function responseOver(req: IncomingMessage, socket: Duplex): ServerResponse {
  // nobody reads the connection until it is a socket, and without reading it, its end is not seen
  socket.on('end', leave).read(0);
  const res = new ServerResponse(req);
  res.shouldKeepAlive = false;
  res.assignSocket(socket as Socket);
  // an answer is all that the connection is for
  res.on('finish', () => {
    res.detachSocket(socket as Socket);
    socket.once('finish', () => socket.destroy());
    socket.end();
  });
  return res;
}

/** Accepts handshakes. */
export function createAccept(limits: SocketLimits) {
  const server = new WebSocketServer({
    ...limits,
    WebSocket: CountedSocket,
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    autoPong: false,
    handleProtocols: chooseProtocol,
  });
  const answers = new WeakMap<IncomingMessage, ServerResponse>();
  server.on('headers', (lines, req) => {
    for (const [name, value] of Object.entries(answers.get(req)?.getHeaders() ?? {})) lines.push(`${name}: ${value}`);
  });

  /** Upgrades the connection, with the headers of its response; `undefined` where the client has left. */
  return function accept({ req, socket, head, res }: Handshake): CountedSocket | undefined {
    answers.set(req, res);
    res.detachSocket(socket as Socket);
    socket.off('end', leave);
    let client: CountedSocket | undefined;
    server.handleUpgrade(req, socket, head, (accepted) => {
      accepted.count(socket, 'client');
      client = accepted;
    });
    return client;
  };
}

/**
 * Answers a handshake that an upstream has refused, as a relayed call would be answered.
 * @throws GatewayError in place of an answer that a client must not see, or can do nothing with
 */
export function sendRefusal(
  { endpoint, req, res, id: requestId }: Handshake,
  upstream: Upstream,
  answer: UpstreamAnswer,
  logger: Logger,
): void {
  const { status, headers, body } = answer;
  if (endpoint.hasHttp && takesNoWebSocket(answer)) {
    // the same error as without a listener for upgrades, on which OpenAI's clients fall back to HTTP at once
    const message = 'No model provider takes a WebSocket here: send the request over HTTP';
    const headers = { upgrade: 'HTTP/1.1', connection: 'Upgrade, close' };
    throw new GatewayError('websocket_not_served', message, { headers });
  }
  requireRelayable(answer, req);
  if (status < 400) throw failure('upstream_invalid_response');
  setResponseHeaders(res, headers);
  if (!isMasked(upstream, status)) {
    res.writeHead(status, { 'content-length': body.length }).end(body);
    return;
  }
  const said = loggableError(body.toString(), true, upstream.headers.fixed);
  const text = JSON.stringify(maskedError({ upstream, status, requestId, body: said }, logger).toBody());
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }).end(text);
}
