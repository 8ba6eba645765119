import { type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { GatewayError } from '../../errors.ts';
import { sendReply } from '../reply/reply.ts';

/** How long a client may take to read why its connection ends. Milliseconds. */
const lingeringTime = 1_000;

/** What Node refuses before there is a request, by the code of its error. */
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

/** A connection with the answer that is under way on it. */
type ClientSocket = Duplex & { readonly _httpMessage?: ServerResponse | null };

/**
 * Whether what is written to the connection now would be read as the answer to the broken request: no answer has begun, and
 * none is owed to a whole request before it (RFC 9112, section 9.3.2). Node looks at the same property before its own answer.
 */
function canAnswer(socket: ClientSocket): boolean {
  const current = socket._httpMessage;
  return socket.writable && (!current || (!current.headersSent && !current.req.complete));
}

/** Answers what Node refuses by itself as the gateway answers its own errors, unless the host listens to it. */
export function answerClientErrors(server: Server): void {
  const answered = new WeakSet<Duplex>();
  if (server.listenerCount('clientError') > 0) return;
  server.on('clientError', (error: NodeJS.ErrnoException, socket: ClientSocket) => {
    // a host may have begun to listen later; what still comes after the answer is no news
    if (server.listenerCount('clientError') > 1 || answered.has(socket)) return;
    if (!canAnswer(socket)) {
      socket.destroy();
      return;
    }
    answered.add(socket);
    // destroyed at once, a connection is reset and its answer lost (RFC 9112, section 9.6)
    const timer = setTimeout(() => socket.destroy(), lingeringTime);
    socket.once('close', () => clearTimeout(timer));
    socket.end(asResponse(refusal(error.code), socket._httpMessage?.req.method));
  });
}

/** Answers an `Expect` of anything but `100-continue` (RFC 9110, section 10.1.1), unless the host listens to it. */
export function answerUnknownExpectations(server: Server): void {
  if (server.listenerCount('checkExpectation') > 0) return;
  server.on('checkExpectation', (req, res) => {
    if (server.listenerCount('checkExpectation') > 1) return;
    const error = new GatewayError('expectation_failed', 'Expect: the only expectation that is known is 100-continue', {
      param: 'Expect',
    });
    sendReply(req, res, { status: error.status, body: error.toBody(), headers: { connection: 'close' } });
  });
}
