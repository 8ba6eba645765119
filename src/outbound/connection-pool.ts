import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { Agent, buildConnector, type Dispatcher, errors } from 'undici';
import { type AllowAddress, guardedLookup, judgeLiteral, judgeScheme } from './address-guard.ts';
import { createResolver, type ResolveHost } from './resolver.ts';
import { skipContinue } from './skip-continue.ts';

/** How connections are made and kept. Durations are milliseconds. */
export interface DispatcherOptions {
  /** Time for name resolution, TCP and TLS together. @default 10_000 */
  readonly connectTimeout?: number;
  /** Decides whether an address may be connected to. @default every address may */
  readonly allowAddress?: AllowAddress;
  /** Whether connections may be without TLS. @default true */
  readonly allowHttp?: boolean;
  /** Connections to one origin; further requests wait for a free one. @default unlimited */
  readonly connections?: number;
  /** How long an idle connection is kept, whatever the other side offers; 0 opens one for every request. @default 4_000 */
  readonly keepAlive?: number;
  /** The trusted certificates, in PEM. @default the system's */
  readonly ca?: string;
  /** How a guarded dispatcher resolves names. @default the hosts file, then DNS */
  readonly resolve?: ResolveHost;
}

/**
 * How long one address of a host is tried before the next. With Node's default of 250 ms, calls to a distant receiver fail if its
 * name also has an IPv6 address and this machine has no IPv6. Milliseconds.
 */
const addressTimeout = 2_000;

type Connector = buildConnector.connector;

/**
 * Adds to a socket's errors what undici's own errors do not say: whether the socket has served a response before, and whether the
 * system has refused to send the end of a request. TLS also writes on its own, so there a failed write says nothing about a request.
 */
function markErrors(socket: Socket, hasContinued: () => boolean): void {
  socket.on('error', (error: NodeJS.ErrnoException & { reusedSocket?: boolean; isUnsent?: boolean }) => {
    error.reusedSocket = socket.bytesRead > 0 && !hasContinued();
    error.isUnsent = error.syscall === 'write' && !(socket instanceof TLSSocket);
  });
}

/** Ends the wait for a connection in time: undici checks its own limit only about once a second. */
function prepared(connect: Connector, timeout: number): Connector {
  return (options, callback) => {
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      callback(new errors.ConnectTimeoutError('the connection was not made in time'), null);
    }, timeout);
    connect(options, (...[error, socket]) => {
      clearTimeout(timer);
      if (late) socket?.destroy();
      else if (error !== null) callback(error, null);
      else {
        markErrors(socket, skipContinue(socket));
        callback(null, socket);
      }
    });
  };
}

/** Checks the scheme, and literal addresses, for which `lookup` is never called. */
function judging(connect: Connector, allowHttp: boolean, allowAddress?: AllowAddress): Connector {
  return (options, callback) => {
    try {
      judgeScheme(options.protocol, allowHttp);
      if (allowAddress) judgeLiteral(options.hostname, allowAddress);
    } catch (error) {
      process.nextTick(callback, error as Error, null);
      return;
    }
    connect(options, callback);
  };
}

/**
 * A pool of HTTP/1.1 connections for each origin. It follows no redirects and decodes nothing. Calls with and without the address
 * guard must never share a pool: a kept connection is not checked again.
 */
export function createDispatcher(options: DispatcherOptions = {}): Dispatcher {
  const { connectTimeout = 10_000, allowAddress, allowHttp = true, connections, keepAlive = 4_000, ca } = options;
  const resolve = options.resolve ?? createResolver({ timeout: connectTimeout / 2 });
  const connect = buildConnector({
    timeout: connectTimeout,
    autoSelectFamilyAttemptTimeout: addressTimeout,
    allowH2: false,
    ...(ca !== undefined && { ca }),
    ...(allowAddress && { lookup: guardedLookup(allowAddress, resolve) }),
  });
  return new Agent({
    connect: prepared(judging(connect, allowHttp, allowAddress), connectTimeout),
    ...(connections !== undefined && { connections }),
    ...(keepAlive > 0 ? { keepAliveTimeout: keepAlive, keepAliveMaxTimeout: keepAlive } : { pipelining: 0 }),
    // callers set time limits: undici checks its own only once a second
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}
