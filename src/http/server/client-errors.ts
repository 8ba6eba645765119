import { type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { GatewayError } from '../../errors.ts';
import { sendReply } from '../reply/reply.ts';

/** How long a client may take to read the answer before its connection closes. Milliseconds. */
const lingeringTime = 1_000;

/** The error for what Node refuses before there is a request, by the code of Node's error. */
function refusal(code: unknown): GatewayError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new GatewayError(
        'headers_too_large',
        'The headers of the request are too long; send fewer or shorter ones',
      );
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new GatewayError('request_too_large', 'The extensions of a chunk are too long; send chunks without them');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new GatewayError('request_timeout', 'The request did not arrive in time; send it again');
    default:
      return new GatewayError(
        'malformed_request',
        'The request is not valid HTTP; check its request line, headers and body length',
      );
  }
}

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

/**
 * Whether a client would read what is written now as the answer to the broken request: no answer has begun, and no complete
 * request before it still waits for one (RFC 9112, section 9.3.2). Node checks the same property before its own answer.
 */
function canAnswer(socket: ClientSocket): boolean {
  const current = socket._httpMessage;
  return socket.writable && (!current || (!current.headersSent && !current.req.complete));
}

/** Answers what Node refuses in the gateway's error format, unless the host listens for `clientError`. */
export function answerClientErrors(server: Server): void {
  const answered = new WeakSet<Duplex>();
  if (server.listenerCount('clientError') > 0) return;
  server.on('clientError', (error: NodeJS.ErrnoException, socket: ClientSocket) => {
    // the host may have started to listen later; errors after the answer do not matter
    if (server.listenerCount('clientError') > 1 || answered.has(socket)) return;
    if (!canAnswer(socket)) {
      socket.destroy();
      return;
    }
    answered.add(socket);
    // destroying the connection at once would reset it and lose the answer (RFC 9112, section 9.6)
    const timer = setTimeout(() => socket.destroy(), lingeringTime);
    socket.once('close', () => clearTimeout(timer));
    socket.end(asResponse(refusal(error.code), socket._httpMessage?.req.method));
  });
}

/** Answers an `Expect` of anything but `100-continue` (RFC 9110, section 10.1.1), unless the host listens for it. */
export function answerUnknownExpectations(server: Server): void {
  if (server.listenerCount('checkExpectation') > 0) return;
  server.on('checkExpectation', (req, res) => {
    if (server.listenerCount('checkExpectation') > 1) return;
    const error = new GatewayError('expectation_failed', 'Expect: only 100-continue is supported', {
      param: 'Expect',
    });
    sendReply(req, res, { status: error.status, body: error.toBody(), headers: { connection: 'close' } });
  });
}
