import type { Socket } from 'node:net';
import type { buildConnector } from 'undici';
// by their paths: undici.d.ts says why
import connectThrough from 'undici/lib/api/api-connect.js';
import createConnector from 'undici/lib/core/connect.js';
import errors from 'undici/lib/core/errors.js';
import Client from 'undici/lib/dispatcher/client.js';
import { OutboundError, outboundError } from './outbound-error.ts';

export type Connector = buildConnector.connector;

/** How connections through a proxy are made. */
export interface TunnelOptions {
  /** Its URL, with credentials where it wants some. */
  readonly proxy: string;
  /** Time for the proxy, the host behind it and TLS together. Milliseconds. */
  readonly timeout: number;
  /** The certificates that are trusted of hosts behind the proxy, in PEM. @default the system's */
  readonly ca?: string | undefined;
}

/**
 * How long one address of a host is tried before the next. With Node's default of 250 ms, calls to a distant receiver fail if its
 * name also has an IPv6 address and this machine has no IPv6. Milliseconds.
 */
const addressTimeout = 2_000;

/** Makes HTTP/1.1 connections, without a limit of the exact time. */
export function plainConnector(options: Omit<buildConnector.BuildOptions, 'allowH2'>): Connector {
  return createConnector({ autoSelectFamilyAttemptTimeout: addressTimeout, ...options, allowH2: false });
}

/**
 * Ends the wait for a connection in time: undici checks its own limit only about once a second.
 * @param timeout milliseconds
 */
export function withinTime(connect: Connector, timeout: number): Connector {
  return (options, callback) => {
    let hasTimedOut = false;
    const timer = setTimeout(() => {
      hasTimedOut = true;
      callback(new errors.ConnectTimeoutError('the connection was not made in time'), null);
    }, timeout);
    connect(options, (...result) => {
      clearTimeout(timer);
      if (hasTimedOut) result[1]?.destroy();
      else callback(...result);
    });
  };
}

/** A proxy as it may be shown: without credentials. */
export function proxyOrigin(proxy: string): string {
  return new URL(proxy).origin;
}

/** The credentials of a proxy's URL as it takes them (RFC 7617). */
function proxyHeaders({ username, password }: URL): Record<string, string> {
  if (username === '' && password === '') return {};
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` };
}

/**
 * Why a proxy has made no tunnel: it may not, or the host behind it could not be reached. Proxies that guard addresses, such as Smokescreen,
 * refuse with 407 as those do that want other credentials.
 */
function refusal(status: number): OutboundError {
  if (status < 500) return new OutboundError('proxy_refused', `the proxy refused the connection with ${status}`);
  return outboundError(status === 504 ? 'connect_timeout' : 'connect_failed');
}

/**
 * Makes connections through a proxy, for http as for https: with CONNECT, so that a refusal of the proxy is never taken for an answer of the host.
 * undici's own ProxyAgent does the same, but it serves no WebSockets, keeps the proxy's status to itself, and drops a header that comes twice.
 */
export function createTunnel({ proxy, timeout, ca }: TunnelOptions): Connector {
  const url = new URL(proxy);
  const headers = proxyHeaders(url);
  // a proxy is near: where it is silent, there is time left to say so
  const toProxy = plainConnector({ timeout: timeout / 2 });
  const secure = plainConnector({ timeout, ...(ca !== undefined && { ca }) });

  async function open({ hostname, protocol, port }: buildConnector.Options): Promise<Socket> {
    const authority = `${hostname.includes(':') ? `[${hostname}]` : hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;
    const client = new Client(url.origin, {
      // TLS is with the proxy, whatever name the header has
      connect: ({ servername: _, ...options }, callback) => toProxy(options, callback),
      headersTimeout: timeout,
    });
    const request = { path: authority, headers: { host: authority, ...headers } };
    const answer = await connectThrough.call(client, request).catch((cause) => {
      throw outboundError('proxy_unreachable', cause);
    });
    const socket = answer.socket as Socket;
    if (answer.statusCode >= 200 && answer.statusCode < 300) return socket;
    socket.on('error', () => {}).destroy();
    throw refusal(answer.statusCode);
  }

  return (options, callback) => {
    open(options).then(
      (socket) => {
        if (options.protocol !== 'https:') callback(null, socket);
        else secure({ ...options, httpSocket: socket }, callback);
      },
      (error) => callback(error, null),
    );
  };
}

/** Makes a connection to a host, TLS included. */
export type Connect = (url: URL) => Promise<Socket>;

/** {@link createTunnel} for clients other than undici. */
export function createTunnelConnect(options: TunnelOptions): Connect {
  const connect = withinTime(createTunnel(options), options.timeout);
  return ({ host, hostname, protocol, port }) =>
    new Promise((resolve, reject) => {
      const target = { host, hostname: hostname.replace(/^\[|\]$/g, ''), protocol, port };
      connect(target, (error, socket) => (error ? reject(error) : resolve(socket as Socket)));
    });
}
