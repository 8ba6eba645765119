import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import axios, {
  type AxiosAdapter,
  AxiosHeaders,
  type AxiosHeaderValue,
  type AxiosInstance,
  type AxiosRequestConfig,
  type AxiosResponse,
  CanceledError,
  isAxiosError,
} from 'axios';
import type { Dispatcher } from 'undici';
// by its path: undici.d.ts says why
import Agent from 'undici/lib/dispatcher/agent.js';
import { type AllowAddress, createResolver, guardedLookup, knownAddresses, type ResolveHost } from './addresses.ts';
import { type Connector, createTunnel, plainConnector, withinTime } from './connector.ts';
import {
  exchange,
  type OutboundRequest,
  type OutboundResponse,
  type PooledDispatcher,
  type ResponseBody,
} from './exchange.ts';
import { classify, type OutboundCode, outboundError } from './outbound-error.ts';

/** A request of the gateway's own. */
export interface RequestConfig extends OutboundRequest {
  readonly method?: Dispatcher.HttpMethod;
  readonly url: string;
  /** Names in lower case. @default none */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Makes the gateway's outgoing calls. Resolves whatever the status is, and rejects with an `OutboundError`. */
export interface HttpClient {
  /** Every call passes these. As in any axios instance, the request interceptor that was added first runs last. */
  readonly interceptors: AxiosInstance['interceptors'];
  request(config: RequestConfig): Promise<OutboundResponse>;
  /**
   * The same for relayed calls: without an interceptor they go straight to `exchange`. Through axios a relayed call with a short answer
   * takes 1.15 times the CPU on Node 24 (1.08 to 1.31 in five times 40 interleaved turns), and 1.23 times on Node 20 (1.15 to 1.25).
   */
  relay(config: RequestConfig): Promise<OutboundResponse>;
}

/** Axios declares a body without a type as a form; `false` leaves the header out. */
const untyped = { 'content-type': false } as const;

/** Creates an axios instance that sends and receives bytes unchanged. */
export function createHttpClient(dispatcher: PooledDispatcher): HttpClient {
  const instance = axios.create({ adapter: createAxiosAdapter(dispatcher) });
  const { interceptors } = instance;
  // axios' defaults add headers and parse bodies as JSON, and merging them takes as much time as everything else that axios does for a call
  const defaults: Record<string, unknown> = instance.defaults;
  for (const name in defaults) if (name !== 'adapter') delete defaults[name];

  async function request(config: RequestConfig): Promise<OutboundResponse> {
    const { headers = {} } = config;
    const typed = 'content-type' in headers ? config : { ...config, headers: { ...headers, ...untyped } };
    try {
      const response = await instance.request<ResponseBody>(typed as AxiosRequestConfig);
      // the rest of axios' response is the request, which is large and contains secrets
      const { status, statusText, data } = response;
      return { status, statusText, headers: response.headers as OutboundResponse['headers'], data };
    } catch (error) {
      // axios' own errors contain the request with its headers, which must not leave this file
      if (error instanceof CanceledError) {
        throw classify(error.cause ?? (error.config?.signal as AbortSignal | undefined)?.reason);
      }
      throw classify(isAxiosError(error) ? { code: error.code } : error);
    }
  }

  function relay(config: RequestConfig): Promise<OutboundResponse> {
    const { request: outgoing, response: incoming } = interceptors;
    const isHooked = outgoing.handlers?.length !== 0 || incoming.handlers?.length !== 0;
    return isHooked ? request(config) : exchange(dispatcher, config);
  }

  return { interceptors, request, relay };
}

/**
 * Headers as undici has parsed them, with names in lower case. Axios would normalise them once more, and its time grows with the
 * square of their number: a receiver that sends thousands would delay everything else.
 */
class ReceivedHeaders extends AxiosHeaders {
  constructor(headers: OutboundResponse['headers']) {
    super();
    for (const name in headers) {
      // a header with the name of a method would replace the method
      if (!(name in this)) this[name] = headers[name] as AxiosHeaderValue;
    }
  }

  override normalize(): this {
    return this;
  }
}

/**
 * An axios adapter over {@link exchange}. The response's `data` is a `ResponseBody`. `url` is absolute. `signal` covers the
 * whole call, body included. Axios' `timeout` has no effect.
 *
 * Rejects with an `OutboundError`, or with axios' `CanceledError` around one.
 */
function createAxiosAdapter(dispatcher: PooledDispatcher): AxiosAdapter {
  return async (config) => {
    try {
      // axios' types do not say that a signal has a reason
      const request = config as unknown as OutboundRequest;
      const { data, status, statusText, headers } = await exchange(dispatcher, request);
      return { data, status, statusText, headers: new ReceivedHeaders(headers), config } as AxiosResponse;
    } catch (cause) {
      // when the signal has aborted, axios expects a CanceledError
      throw config.signal?.aborted ? Object.assign(new CanceledError(), { cause }) : cause;
    }
  };
}

/** How connections are made and kept. Durations are milliseconds. */
export interface DispatcherOptions {
  /** Time for name resolution, TCP and TLS together. @default 10_000 */
  readonly connectTimeout?: number;
  /** Decides whether an address may be connected to. @default every address may */
  readonly allowAddress?: AllowAddress;
  /** Whether connections may be without TLS. @default true */
  readonly allowHttp?: boolean;
  /** How long an idle connection is kept, whatever the other side offers. @default 4_000 */
  readonly keepAlive?: number;
  /** The trusted certificates, in PEM. @default the system's */
  readonly ca?: string;
  /** How a guarded dispatcher resolves names. @default the hosts file, then DNS */
  readonly resolve?: ResolveHost;
  /** The proxy that every connection goes through. It resolves the names: `allowAddress` then judges only what is an address in a URL. @default none */
  readonly proxy?: string | undefined;
}

/** Makes a connector that checks the scheme, and the hosts for which `lookup` is never called, or by a proxy alone. */
function guarded(connect: Connector, allowHttp: boolean, allowAddress?: AllowAddress): Connector {
  function refusal({ hostname, protocol }: Parameters<Connector>[0]): OutboundCode | undefined {
    if (protocol !== 'https:' && !allowHttp) return 'http_not_allowed';
    const known = knownAddresses(hostname);
    return allowAddress && known.length > 0 && !known.some(allowAddress) ? 'address_not_allowed' : undefined;
  }
  return (options, callback) => {
    const code = refusal(options);
    if (code !== undefined) {
      process.nextTick(callback, outboundError(code), null);
      return;
    }
    connect(options, (...[error, socket]) => {
      if (error !== null) return callback(error, null);
      adaptSocket(socket);
      callback(null, socket);
    });
  };
}

/**
 * HTTP/1.1 connections to each origin. They follow no redirects and decode nothing. Calls with and without the address
 * guard must never share a pool: a kept connection is not checked again.
 */
export function createDispatcher(options: DispatcherOptions = {}): PooledDispatcher {
  const { connectTimeout = 10_000, allowAddress, allowHttp = true, keepAlive = 4_000, ca, proxy } = options;
  const resolve = options.resolve ?? createResolver({ timeout: connectTimeout / 2 });
  const connect =
    proxy !== undefined
      ? createTunnel({ proxy, timeout: connectTimeout, ca })
      : plainConnector({
          timeout: connectTimeout,
          ...(ca !== undefined && { ca }),
          ...(allowAddress && { lookup: guardedLookup(allowAddress, resolve) }),
        });
  const shared = {
    connect: guarded(withinTime(connect, connectTimeout), allowHttp, allowAddress),
    // callers set time limits: undici checks its own only once a second
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  const pooled = new Agent({ ...shared, keepAliveTimeout: keepAlive, keepAliveMaxTimeout: keepAlive });
  // undici then ends each connection with its response
  const fresh = new Agent({ ...shared, pipelining: 0 });
  return {
    pooled,
    fresh,
    async destroy() {
      await Promise.all([pooled.destroy(), fresh.destroy()]);
    },
  };
}

/** A status that ends a request: none of 1xx. */
const finalStatus = /^HTTP\/1\.[01] ([2-9]\d\d)(?=[ \r\n])/;
const continueHead = /^HTTP\/1\.[01] 100(?: [^\r\n]*)?\r\n(?:[^\r\n]+\r\n)*\r\n/;
/** The longest 100 that is recognised. Bytes. */
const lookAhead = 1_024;

/** The position of a status's first digit, and that digit in a 100. */
const statusAt = 'HTTP/1.1 '.length;
const digitOne = 0x31;

/** An error of a socket, with what {@link adaptSocket} adds to it. */
interface SocketError extends NodeJS.ErrnoException {
  reusedSocket?: boolean;
  isUnsent?: boolean;
  answeredStatus?: number;
}

/**
 * Removes 100 (Continue) from the start of a response. Any server or proxy may send it unasked (RFC 9110, section 15.2), and undici
 * (7.30 as before) then closes the connection: the attempt fails, although the receiver has the request. The cost is too small to be measured: 0.95
 * to 1.10 of the CPU of a relayed call on Node 24, in five times 40 interleaved turns.
 *
 * Adds to the socket's errors what undici's own errors do not say: the status where undici refuses the rest of a head (more than 16 KB,
 * line ends without a carriage return, two lengths), whether the socket has served a response before, and whether the system has refused to send the end of a request. TLS also writes on its own, so there a failed write says nothing about a request.
 * An aborted request gets a code after which undici forgets it; with its own, undici 7 opens another connection for it.
 */
function adaptSocket(socket: Socket): void {
  const read = socket.read.bind(socket);
  // a tunnel has read the proxy's answer
  const readBefore = socket.bytesRead;
  let answered = -1;
  let continued = -1;
  let head = '';

  socket.read = (size?: number) => {
    const chunk: Buffer | null = read(size);
    // a response starts with the first bytes after a request
    if (chunk === null) return chunk;
    const written = socket.bytesWritten;
    if (written === answered) return chunk;
    let skipped = 0;
    while (chunk[skipped + statusAt] === digitOne) {
      const interim = continueHead.exec(chunk.toString('latin1', skipped, skipped + lookAhead));
      if (!interim) break;
      skipped += interim[0].length;
    }
    if (skipped > 0) continued = written;
    if (skipped === chunk.length) return null;
    answered = written;
    head = chunk.toString('latin1', skipped, skipped + statusAt + 4);
    return skipped === 0 ? chunk : chunk.subarray(skipped);
  };

  socket.on('error', (error: SocketError) => {
    if (error.code === 'UND_ERR_INFO' && error.message === 'aborted') error.code = 'UND_ERR_SOCKET';
    // a 100 since the last bytes were written is of this request
    error.reusedSocket = socket.bytesRead > readBefore && socket.bytesWritten !== continued;
    error.isUnsent = error.syscall === 'write' && !(socket instanceof TLSSocket);
    const [, status] = (socket.bytesWritten === answered && finalStatus.exec(head)) || [];
    if (status) error.answeredStatus = Number(status);
  });
}
