import { type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ErrorCode, GatewayError } from '../errors.ts';
import { refuseOption } from '../options/kinds.ts';
import { isStreamingBody } from './body/body-stream.ts';
import { sendReply } from './reply.ts';

/** What {@link hardenServer} sets: properties of Node's server, which a host sets after the call where it wants others. Durations are milliseconds. */
const settings = {
  /** From the connection, or the first byte of a later request, to the end of a request's head. Node's own is 60_000. */
  headersTimeout: 10_000,
  /** To the end of a request's body. Longer than the gateway's own 120 s for a body, whose error says more. Node's own is 300_000. */
  requestTimeout: 130_000,
  /** How often connections are checked against these two. Node's own is 30_000. */
  connectionsCheckingInterval: 2_000,
  /**
   * Longer than a proxy in front keeps a connection, or that sends a request on one that is being closed, and answers 502. AWS's load
   * balancers and nginx keep theirs for 60 s. Node's own is 5_000.
   */
  keepAliveTimeout: 65_000,
  /** Node 20 and 22 drop the rest, Node 24 refuses the request with 431. Node's own is 2_000. */
  maxHeadersCount: 100,
  /** Further connections are closed at once. Node has no limit. */
  maxConnections: 10_000,
} as const;

/**
 * Answers `Expect: 100-continue` (RFC 9110, section 10.1.1) when the body begins to be read: by then the gateway knows who
 * makes the request and how long the body will be. Node alone accepts every body at once.
 */
function continueWhenRead(server: Server): void {
  if (server.listenerCount('checkContinue') > 0) return;
  server.on('checkContinue', (req, res) => {
    req.once('resume', () => {
      if (!res.headersSent) res.writeContinue();
    });
    server.emit('request', req, res);
  });
}

/**
 * Limits what slow and greedy clients can take from a server. A request's headers and body must arrive in time, or it is
 * answered 408 and its connection closes. A client that sends `Expect: 100-continue` never sends a body that is refused.
 * Requests that Node itself refuses (400, 408, 413, 417, 431) are answered with a JSON body, unless you have your own
 * listeners for `clientError`, `checkExpectation` and `checkContinue`. Call it before `server.listen()`:
 * `hardenServer(createServer(app)).listen(3000)`. For other values, set the properties of the server afterwards, such as
 * `keepAliveTimeout`.
 * @returns the same server
 * @throws GatewayError `invalid_options`, also for a server that already listens
 */
export function hardenServer<S extends Server>(server: S): S;
export function hardenServer(server: Server, ...former: readonly object[]): Server {
  const [name] = Object.keys(former[0] ?? {});
  if (name !== undefined) refuseOption(name, `is no option any more: set it on the server, after hardenServer(server)`);
  if (server.listening) refuseOption('server', 'listens already; harden it before server.listen()');
  continueWhenRead(server);
  answerClientErrors(server);
  answerUnknownExpectations(server);
  // connectionsCheckingInterval is read when the server starts to listen, though only createServer's options document it
  return Object.assign(server, settings);
}

/** How long a client may take to read the answer before its connection closes. Milliseconds. */
const lingeringTime = 1_000;

/** The errors for what Node refuses before there is a request, by the codes of Node's. */
const refusals: Readonly<Record<string, readonly [code: ErrorCode, message: string]>> = {
  HPE_HEADER_OVERFLOW: ['headers_too_large', 'The headers of the request are too long; send fewer or shorter ones'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [
    'request_too_large',
    'The extensions of a chunk are too long; send chunks without them',
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['request_timeout', 'The request did not arrive in time; send it again'],
};
const malformed = [
  'malformed_request',
  'The request is not valid HTTP; check its request line, headers and body length',
] as const;

/** @param method where it is known: an answer to HEAD has no body (RFC 9110, section 9.3.2) */
function asResponse(error: GatewayError, method: string | undefined): string {
  const body = JSON.stringify(error.toBody());
  return [
    `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    'cache-control: no-store',
    'connection: close',
    '',
    method === 'HEAD' ? '' : body,
  ].join('\r\n');
}

/** A connection, with the response in progress on it. */
type ClientSocket = Duplex & { readonly _httpMessage?: ServerResponse | null };

/** Answers what Node refuses in the gateway's error format, unless the host listens for `clientError`. */
function answerClientErrors(server: Server): void {
  const answered = new WeakSet<Duplex>();
  if (server.listenerCount('clientError') > 0) return;
  server.on('clientError', (error: NodeJS.ErrnoException, socket: ClientSocket) => {
    // the host may have started to listen later; errors after the answer do not matter
    if (server.listenerCount('clientError') > 1 || answered.has(socket)) return;
    // Node says so once, and lets the request go on
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isStreamingBody(socket)) return;
    // A client would read what is written now as the answer to the broken request if no answer has begun, and no complete request before it
    // still waits for one (RFC 9112, section 9.3.2). Node checks the same property before its own answer.
    const current = socket._httpMessage;
    if (!socket.writable || current?.headersSent || current?.req.complete) {
      socket.destroy();
      return;
    }
    answered.add(socket);
    // destroying the connection at once would reset it and lose the answer (RFC 9112, section 9.6)
    const timer = setTimeout(() => socket.destroy(), lingeringTime);
    socket.once('close', () => clearTimeout(timer));
    socket.end(asResponse(new GatewayError(...(refusals[error.code ?? ''] ?? malformed)), current?.req.method));
  });
}

/** Answers an `Expect` of anything but `100-continue` (RFC 9110, section 10.1.1), unless the host listens for it. */
function answerUnknownExpectations(server: Server): void {
  if (server.listenerCount('checkExpectation') > 0) return;
  server.on('checkExpectation', (req, res) => {
    if (server.listenerCount('checkExpectation') > 1) return;
    const error = new GatewayError('expectation_failed', 'Expect: only 100-continue is supported', {
      param: 'Expect',
    });
    sendReply(req, res, { status: error.status, body: error.toBody(), headers: { connection: 'close' } });
  });
}
