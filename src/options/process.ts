import type { IncomingMessage } from 'node:http';
import { refuseOption } from './kinds.ts';
import type { Principal } from './principal.ts';

/** Background responses (`background: true`). Durations are milliseconds. */
export interface BackgroundOptions {
  /**
   * How long after its first answer the upstream is asked whether such a response has ended. Each further wait is half as
   * long again, up to `backgroundPollLimit`. @default 2_000
   */
  readonly backgroundPollInterval?: number;
  /** The longest wait between two polls of one response. @default 60_000 */
  readonly backgroundPollLimit?: number;
  /**
   * How long the gateway follows such a response. One that has not ended by then is charged by estimate, and a warning is
   * logged. At most seven days. @default 86_400_000, a day
   */
  readonly backgroundTimeout?: number;
}

/** Sizes of request bodies. */
export interface BodyOptions {
  /** The largest body of a model call, in bytes. @default 33_554_432 (32 MiB) */
  readonly modelBodyLimit?: number;
  /** The largest body of any other call, in bytes. @default 262_144 (256 KiB) */
  readonly webhookBodyLimit?: number;
  /** The largest file, or part of an upload, in bytes. Files go up as they come, and take no `bodyMemory`. @default 536_870_912 (512 MiB) */
  readonly maxFileBytes?: number;
  /** The most files an account may have at once. 1 to 1_000_000. @default 10_000 */
  readonly maxFiles?: number;
  /**
   * Bytes that this process holds at once: of request bodies, decompressed, that are still arriving or are kept until an upstream answers, and of
   * WebSockets, messages that have not come whole and what waits for a side that reads slowly. One account may hold as much as is free.
   * At least twice `modelBodyLimit` and four times `maxSocketMessageBytes`.
   * @default 268_435_456 (256 MiB), or that least where it is more
   */
  readonly bodyMemory?: number;
}

/** The least `bodyMemory`: an account alone may fill half of it, with a body or with one message each way. Bytes. */
export function leastBodyMemory({
  modelBodyLimit = 0,
  maxSocketMessageBytes = 0,
}: BodyOptions & SocketOptions): number {
  return Math.max(2 * modelBodyLimit, 4 * maxSocketMessageBytes);
}

/** WebSockets, for realtime sessions and responses. */
export interface SocketOptions {
  /** The most WebSockets that one account may have open, in each process. Beyond it: 429. 1 to 100_000. @default 100 */
  readonly maxSockets?: number;
  /** The longest message of a WebSocket, either way, in bytes. A longer one closes it with 1009. At most 134_217_728. @default 16_777_216 (16 MiB) */
  readonly maxSocketMessageBytes?: number;
  /** How long a WebSocket may be without a message before it is closed. Milliseconds, at most 86_400_000. @default 600_000 (10 min) */
  readonly socketIdleTimeout?: number;
}

/** Without MongoDB. What the gateway does while MongoDB is unavailable. */
export interface DatabaseOptions {
  /**
   * How long a key that this process has checked may still make model calls while the database does not answer. A key
   * that is revoked elsewhere meanwhile works here at most that much longer. 0 to 86_400_000. @default 300_000 (5 min)
   */
  readonly keyGracePeriod?: number;
  /**
   * The most usage records kept in memory until they can be written. Beyond it the oldest are lost, which is logged.
   * 1 to 10_000_000. @default 100_000
   */
  readonly usageBacklog?: number;
}

/** Process records. What each process stores about itself for the operator. */
export interface ProcessOptions {
  /**
   * How often this process renews its record, which `/v1/admin/processes` shows. It counts as live for three times as long.
   * Milliseconds, at most 60_000. @default 10_000
   */
  readonly processInterval?: number;
  /** Whether this process serves requests: `false` only changes the role in its record to `worker`. @default true */
  readonly servesRequests?: boolean;
}

/**
 * Who gets the header `traceparent` (W3C Trace Context) with the gateway's requests. Spans are made wherever the host has registered an
 * OpenTelemetry SDK, whatever this says.
 */
export interface TracingOptions {
  /** Whether requests of model calls carry the header `traceparent`, so that an upstream of yours can continue the trace. @default false */
  readonly propagateToUpstreams?: boolean;
  /** Whether deliveries carry the header `traceparent`, so that receivers can continue the trace. It is not part of what is signed. @default false */
  readonly propagateToReceivers?: boolean;
}

/** The page where customers see their webhooks, and who may open it. */
export interface DashboardOptions {
  /** Its path below the router's mount point, such as `/dashboard`. Not `/v1` or a path below it. */
  readonly path: string;
  /**
   * Returns who is signed in, by your own session; `null` if the request has no session. It is called only on the
   * dashboard's paths, and only for requests that a page of the same origin makes, so that a cookie cannot be used from
   * another site. A principal without `scopes` sees webhooks, API keys, usage and credits. With `scopes: ['webhooks']` it
   * sees only webhooks. In front of Express, the request has no session of Express's: read the cookie from its headers.
   * @default API keys alone
   */
  readonly authenticate?: (req: IncomingMessage) => Principal | null | Promise<Principal | null>;
}

/** @throws GatewayError `invalid_options` */
export function checkDashboardPath(param: string, path: unknown): void {
  if (typeof path === 'string' && /^(\/[\w.~-]+)+$/.test(path) && !/^\/v1(\/|$)|\/\.{1,2}(\/|$)/.test(path)) return;
  refuseOption(param, `must be a path such as '/dashboard', outside /v1, without a slash at its end`);
}
