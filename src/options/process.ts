import type { IncomingMessage } from 'node:http';
import { refuseOption } from './kinds.ts';
import type { Principal } from './principal.ts';

/** Model calls, and their answers. */
export interface ModelCallOptions {
  /** The most tries of a call before its first byte, over all upstreams that serve the model. @default 3 @when your clients retry by themselves, or you have many upstreams */
  readonly attempts?: number;
  /** Whether clients get the name of the upstream that answered, as `x-gateway-upstream`. @default false @when your clients may know your providers */
  readonly exposeUpstream?: boolean;
  /**
   * Whether an upstream's call is aborted when its client leaves. `false` lets it run to its end. Then the upstream's own
   * usage is charged, not an estimate, and you pay for answers that no client reads. @default true @when charges must be by exact usage
   */
  readonly abortOnDisconnect?: boolean;
  /**
   * After how long without anything to send a stream of events gets a comment, `: heartbeat`, so that a balancer on the way to the client does not
   * take it for dead. Clients pass over comments. Milliseconds, 100 to 3_600_000. @default none @when a balancer closes connections that are silent
   */
  readonly streamHeartbeat?: number;
  /**
   * How long a key that this process has checked may still make model calls while the database does not answer. A key
   * that is revoked elsewhere meanwhile works here at most that much longer. 0 to 86_400_000. @default 300_000 (5 min)
   * @when a revoked key must end at once, or calls must go on through a longer outage
   */
  readonly keyGracePeriod?: number;
}

/** Background responses (`background: true`). Durations are milliseconds. */
export interface BackgroundOptions {
  /**
   * How long after its first answer the upstream is asked whether such a response has ended. Each further wait is half as
   * long again, up to thirty times this. @default 2_000 @when an upstream limits or charges how often it is asked
   */
  readonly pollInterval?: number;
  /**
   * How long the gateway follows such a response. One that has not ended by then is charged by estimate, and a warning is
   * logged. At most seven days. @default 86_400_000, a day @when your upstreams take longer, or are never that long
   */
  readonly timeout?: number;
}

/** WebSockets, for realtime sessions and responses. */
export interface SocketOptions {
  /** The most WebSockets that one account may have open, in each process. Beyond it: 429. 1 to 100_000. @default 100 @when one account serves many callers */
  readonly maxPerAccount?: number;
  /** How long a WebSocket may be without a message before it is closed. Milliseconds, at most 86_400_000. @default 600_000 (10 min) @when calls have longer pauses, as in telephony */
  readonly idleTimeout?: number;
}

/**
 * Who gets the header `traceparent` (W3C Trace Context) with the gateway's requests. Spans are made wherever the host has registered an
 * OpenTelemetry SDK, whatever this says.
 */
export interface TracingOptions {
  /** Whether requests of model calls carry the header `traceparent`, so that an upstream of yours can continue the trace. @default false @when an upstream of yours makes spans */
  readonly propagateToUpstreams?: boolean;
  /** Whether deliveries carry the header `traceparent`, so that receivers can continue the trace. It is not part of what is signed. @default false @when receivers of yours make spans */
  readonly propagateToReceivers?: boolean;
}

/** The page where customers see their webhooks, and who may open it. */
export interface DashboardOptions {
  /** Its path below the router's mount point, such as `/dashboard`. Not `/v1` or a path below it. @when always */
  readonly path: string;
  /**
   * Returns who is signed in, by your own session; `null` if the request has no session. It is called only on the
   * dashboard's paths, and only for requests that a page of the same origin makes, so that a cookie cannot be used from
   * another site. A principal without `scopes` sees webhooks, API keys, usage and credits. With `scopes: ['webhooks']` it
   * sees only webhooks. In front of Express, the request has no session of Express's: read the cookie from its headers.
   * @default API keys alone
   * @when your users sign in to a site of yours
   */
  readonly authenticate?: (req: IncomingMessage) => Principal | null | Promise<Principal | null>;
}

/** @throws GatewayError `invalid_options` */
export function checkDashboardPath(param: string, path: unknown): void {
  if (typeof path === 'string' && /^(\/[\w.~-]+)+$/.test(path) && !/^\/v1(\/|$)|\/\.{1,2}(\/|$)/.test(path)) return;
  refuseOption(param, `must be a path such as '/dashboard', outside /v1, without a slash at its end`);
}
