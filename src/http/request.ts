import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { anthropicPath, type Dialect, GatewayError } from '../errors.ts';
import { newId } from '../ids.ts';
import type { Logger } from '../options/options.ts';
import { InFlight } from '../pending-work.ts';

/** Short, and safe to put into a header, a log line or a URL. */
const safeId = /^[A-Za-z0-9._-]{1,64}$/;

/**
 * The id of a request: the one that the host has already set on the answer, else the client's own `x-request-id`, else a
 * new one. The first two count only if they are short plain tokens.
 */
export function requestId(headers: IncomingHttpHeaders, res: ServerResponse): string {
  const given = [res.getHeader('x-request-id'), headers['x-request-id']];
  return given.find((id): id is string => typeof id === 'string' && safeId.test(id)) ?? newId('req', Date.now());
}

/** Scheme and authority of a request target in absolute form (RFC 9112, section 3.2.2). */
const absolute = /^https?:\/\/([^/?#]*)/i;

/** The path of a request, without the query, whatever form the client sent its target in. */
export function pathOf({ url = '' }: Pick<IncomingMessage, 'url'>): string {
  const [path = ''] = url.replace(absolute, '').split('?', 1);
  return path.startsWith('/') ? path : `/${path}`;
}

/** What comes before a path of an API, also where a client adds `/v1` to a base URL that has it already. */
const versions = /^(?:\/v1){1,2}(?=\/)/;
/** The paths that are in both APIs. */
const commonPath = /^\/v1\/(?:models|files|skills)(?:\/|$)/;

/** The API that a request is for: Anthropic's clients name the version of theirs, which tells on paths that are in both. */
export function dialectOf(req: Pick<IncomingMessage, 'url' | 'headers'>): Dialect {
  const path = pathOf(req);
  if (req.headers['anthropic-version'] !== undefined && commonPath.test(path)) return 'anthropic';
  const version = versions.exec(path)?.[0];
  return version !== undefined && anthropicPath.test(path.slice(version.length)) ? 'anthropic' : 'openai';
}

/** Sets the id of a request on its answer, under the names that clients read. */
export function setRequestId(res: ServerResponse, id: string, dialect: Dialect): void {
  res.setHeader('x-request-id', id);
  if (dialect === 'anthropic') res.setHeader('request-id', id);
}

/** The query of a request's target as it came, with its `?`; empty where there is none. */
export function searchOf(url: string): string {
  const start = url.indexOf('?');
  return start === -1 ? '' : (url.slice(start).split('#', 1)[0] as string);
}

/** The host that a request is for: the one in an absolute target, or else in the Host header. */
export function hostOf({ url = '', headers }: Pick<IncomingMessage, 'url' | 'headers'>): string | undefined {
  return (absolute.exec(url)?.[1] ?? headers.host)?.toLowerCase();
}

/** `uri-host [ ":" port ]` of RFC 9110, section 7.2. */
const validHost = /^(\[[\w:.%~-]+\]|[\w.~!$&'()*+,;=%-]*)(:\d*)?$/;

/** How often a header was sent. Of some, Node keeps the first of two and drops the second; only the raw list has both. @param name in lower case */
export function timesSent(name: string, rawHeaders: readonly string[]): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const sent = rawHeaders[i] as string;
    if (sent.length === name.length && sent.toLowerCase() === name) count += 1;
  }
  return count;
}

/**
 * Refuses a request that two servers could take to be for different hosts (RFC 9112, section 3.2).
 * @throws GatewayError `duplicate_parameter` or `invalid_value`
 */
export function requireOneHost(headers: IncomingHttpHeaders, rawHeaders: readonly string[]): void {
  if (timesSent('host', rawHeaders) > 1) {
    throw new GatewayError('duplicate_parameter', 'The Host header must be sent once', { param: 'host' });
  }
  if (headers.host !== undefined && !validHost.test(headers.host)) {
    throw new GatewayError('invalid_value', 'The Host header is not a host with an optional port', { param: 'host' });
  }
}

/** The length of the body that follows, as the request says it (RFC 9112, section 6); a chunked one is endless. Bytes. */
export function announcedLength(headers: IncomingHttpHeaders): number {
  if (headers['transfer-encoding'] !== undefined) return Number.POSITIVE_INFINITY;
  return Number(headers['content-length'] ?? 0);
}

/** Whether the host has answered a request and then called `next()`; its answer is kept. */
export function isAnswered(res: ServerResponse, logger: Logger): boolean {
  if (!res.headersSent) return false;
  logger.error(
    'a request was answered already when it came to the gateway; the host must not call next() after answering',
  );
  return true;
}

/** Whether the client disconnects before its answer is complete. `outbound/deadline.ts` says what an AbortSignal would cost instead. */
export class ClientDisconnect {
  disconnected: boolean;
  #listener: (() => void) | undefined;

  /** @param onClose called when the answer is sent or the client has disconnected: the one listener of `close` that a request has */
  constructor(res: ServerResponse, onClose: () => void) {
    this.disconnected = res.destroyed;
    res.on('close', () => {
      onClose();
      if (res.writableFinished) return;
      this.disconnected = true;
      this.#listener?.();
    });
    if (res.socket) return;
    // Node does not tell the answer to a pipelined request of its end, which has no socket as long as those before it on the connection are not
    // sent (RFC 9112, section 9.3.2)
    const { socket } = res.req;
    const close = (): void => {
      if (res.socket) return;
      res.destroy();
      res.emit('close');
    };
    // a client may pipeline more requests than Node takes for a leak of listeners
    socket.setMaxListeners(0);
    socket.on('close', close);
    res.on('close', () => socket.off('close', close));
  }

  /** Calls one listener when the client disconnects, or at once if it already has; `undefined` removes the listener. */
  onDisconnect(listener: (() => void) | undefined): void {
    if (this.disconnected) listener?.();
    else this.#listener = listener;
  }
}

function shuttingDown(): GatewayError {
  return new GatewayError('shutting_down', 'The gateway is shutting down; send the request again', {
    headers: { 'retry-after': '1', connection: 'close' },
  });
}

/** The requests in progress, so that a gateway that closes can wait for them. */
export class OpenRequests {
  readonly #open = new InFlight<ServerResponse>();
  readonly #bodies = new InFlight<(error: GatewayError) => void>();
  #closing = false;
  #takesBodies = true;
  #onLast: (() => void) | undefined;

  /**
   * Counts a request until {@link delete}.
   * @throws GatewayError `shutting_down` once {@link drain} was called
   */
  add(res: ServerResponse): void {
    if (this.#closing) throw shuttingDown();
    this.#open.add(res);
  }

  /** Its answer is sent, or its client has disconnected. */
  delete(res: ServerResponse): void {
    if (this.#open.delete(res) && this.#open.size === 0) this.#onLast?.();
  }

  /** Calls `refuse` when {@link refuseBodies} is called, or at once if it was called before; not after {@link bodyEnded}. */
  bodyBegun(refuse: (error: GatewayError) => void): void {
    if (this.#takesBodies) this.#bodies.add(refuse);
    else refuse(shuttingDown());
  }

  bodyEnded(refuse: (error: GatewayError) => void): void {
    this.#bodies.delete(refuse);
  }

  /** Stops waiting for bodies: requests whose bodies have not arrived are answered 503 `shutting_down`. */
  refuseBodies(): void {
    this.#takesBodies = false;
    for (const refuse of this.#bodies) refuse(shuttingDown());
  }

  /**
   * Refuses new requests from now on. Resolves when the last answer ends, or after `maxWait` milliseconds. Answers that
   * have not begun close their connections.
   */
  drain(maxWait: number): Promise<void> {
    this.#closing = true;
    for (const res of this.#open) if (!res.headersSent) res.setHeader('connection', 'close');
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, maxWait);
      this.#onLast = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#open.size === 0) this.#onLast();
    });
  }
}

/** A body that is not needed is read and dropped up to this length, and its connection is kept. Bytes. */
const drainedBytes = 1024 * 1024;
/** Each chunk of such a body counts as at least this many bytes, because reading it costs as much. */
const bytesPerPiece = 4 * 1024;
/** Of a longer body, this many bytes are read, for this many milliseconds, so that the client gets its answer before the connection closes. */
const lingeringBytes = 64 * 1024 * 1024;
const lingeringTime = 5_000;

/**
 * Sends the whole body of an answer while the request's body may still be arriving. Afterwards the connection is either ready
 * for the next request or closed: once the rest of the body has arrived, or enough of it. To close it at once would reset the connection of
 * a client that is still sending, which would lose the answer (RFC 9112, section 9.6).
 */
export function sendBeforeBody(req: IncomingMessage, res: ServerResponse, text: string | Buffer): void {
  if (req.complete || announcedLength(req.headers) <= drainedBytes) {
    req.resume();
    res.end(text);
    return;
  }
  res.setHeader('connection', 'close');
  res.write(text);
  let remaining = lingeringBytes;
  const count = (chunk: Buffer): void => {
    remaining -= Math.max(chunk.length, bytesPerPiece);
    if (remaining < 0) end();
  };
  const end = (): void => {
    clearTimeout(timer);
    req.off('data', count);
    res.end();
  };
  const timer = setTimeout(end, lingeringTime);
  req.on('data', count);
  req.resume();
  req.once('end', end);
  req.once('close', end);
}
