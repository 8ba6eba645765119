import type { IncomingMessage } from 'node:http';
import type { Connection, Mongoose } from 'mongoose';
import type { CreditOptions, LimitOptions, QuotaOptions } from './accounts.ts';
import type { Logger } from './logger.ts';
import type { ModelHooks } from './model-hooks.ts';
import type { Principal } from './principal.ts';
import type {
  BackgroundOptions,
  BodyOptions,
  DashboardOptions,
  DatabaseOptions,
  ProcessOptions,
  SocketOptions,
  TracingOptions,
} from './process.ts';
import type { UpstreamOptions } from './upstreams.ts';
import type { DeliveryOptions, DisableOptions, EventTypeOptions } from './webhooks.ts';

export type * from './accounts.ts';
export type { Logger } from './logger.ts';
export type * from './model-hooks.ts';
export type { DashboardOptions } from './process.ts';
export type { UpstreamOptions, UpstreamTimeouts } from './upstreams.ts';
export { defaultRetryDelays, type EventTypeOptions } from './webhooks.ts';

/** What {@link createModelGateway} takes. Durations are milliseconds, sizes bytes, unless a line says otherwise. */
export interface ModelGatewayOptions<Custom extends string = string>
  extends ModelHooks,
    BackgroundOptions,
    BodyOptions,
    DatabaseOptions,
    DeliveryOptions,
    DisableOptions,
    ProcessOptions,
    SocketOptions {
  /** Your own mongoose connection, mongoose itself for its default connection, or a MongoDB URI. The gateway closes only what it opened. */
  readonly mongo: Connection | Mongoose | string;
  /**
   * Keys that seal webhook secrets at rest, each `<id>:<32 bytes in base64>`. The first seals, and all of them open. So put
   * a new key in front, and keep the old ones until everything is sealed with the new one. What upstreams get for an
   * `Idempotency-Key` is derived from the key whose id comes first (k9 before k10): give newer keys higher ids.
   */
  readonly secretKeys: readonly string[];
  /**
   * Whether `mongo` may be a standalone mongod. Then events do not survive the loss of its machine, `transaction` and
   * `session` do not work, and only one process may call `start()`: two can count usage twice. For trying things out. @default false
   */
  readonly allowStandalone?: boolean;
  /** The providers that model calls go to. @default [] (every model call answers 404 `model_not_found`) */
  readonly upstreams?: readonly UpstreamOptions[];
  /**
   * The proxy that upstreams are called through, with its credentials: `http://user:password@proxy.example.com:3128`. It must allow CONNECT to their hosts,
   * for http URLs too. Deliveries never go through it. @default none: variables of the environment are not read
   */
  readonly proxy?: string;
  /** The most tries of a model call before its first byte, over all upstreams that serve the model. @default 3 */
  readonly modelAttempts?: number;
  /** The longest that a caller waits between those tries, all waits together. @default 2_000 */
  readonly modelRetryWait?: number;
  /** Whether clients get the name of the upstream that answered, as `x-gateway-upstream`. @default false */
  readonly exposeUpstream?: boolean;
  /**
   * Days that the gateway remembers which account owns a stored response or chat completion. After that, calls about it are
   * 404. @default 30, as long as OpenAI keeps them
   */
  readonly storedRetentionDays?: number;
  /**
   * Whether an upstream's call is aborted when its client leaves. `false` lets it run to its end. Then the upstream's own
   * usage is charged, not an estimate, and you pay for answers that no client reads. @default true
   */
  readonly abortOnDisconnect?: boolean;
  /**
   * After how long without anything to send a stream of events gets a comment, `: heartbeat`, so that a balancer on the way to the client does not
   * take it for dead. Clients pass over comments. Milliseconds, 100 to 3_600_000. @default none
   */
  readonly streamHeartbeat?: number;
  /**
   * Says whose request it is, before any body is read; `null` answers 401. A principal without `scopes` may do what an
   * account's owner may: `models`, `webhooks` and `keys`. Where the router is mounted in Express, the request is
   * Express's, with what your middleware has added. In front of Express it is Node's alone.
   * @default the gateway's own API keys, sent as `Authorization: Bearer …`
   */
  readonly authenticate?: (req: IncomingMessage) => Principal | null | Promise<Principal | null>;
  /** Put before the name of every collection and model. @default 'gateway_' */
  readonly collectionPrefix?: string;
  /**
   * Whether the gateway builds the indexes that are missing when it starts. With `'check'` it builds none and refuses to start
   * while one is missing: `npx express-model-gateway migrate` builds them. @default 'build'
   */
  readonly indexes?: 'build' | 'check';
  /**
   * Event types of your own, by name: `{ 'order.shipped': { schema, example } }`. The gateway validates, sends and lists them
   * like its own eight, and webhooks subscribe to them. @default {}
   */
  readonly eventTypes?: Readonly<Record<Custom, EventTypeOptions>>;
  /** The most webhooks that one account may have. @default 50 */
  readonly maxWebhooks?: number;
  /** The most API keys that one account may have. Revoked and expired ones do not count. @default 100 */
  readonly maxApiKeys?: number;
  /**
   * Requests that change something (webhooks, API keys, resends, recoveries, test events, top-ups) that one account may make per minute,
   * in each process. Beyond it: 429. @default 300
   */
  readonly managementRateLimit?: number;
  /** How often one account may read (every GET: lists, single objects, statistics) in a minute, in each process. Beyond it: 429. @default 6_000 */
  readonly readRateLimit?: number;
  /** How much model calls may ask for, by key and by account. @default no limits */
  readonly limits?: LimitOptions;
  /** Prepaid credits: every call is charged, and is refused when the credits are used up. @default off */
  readonly credits?: CreditOptions;
  /**
   * Whether model calls are recorded and counted. `onUsage` is called in any case. Quotas and credits need this.
   * @default true
   */
  readonly usage?: boolean;
  /** What accounts may use in a day or month, and when `usage.threshold` is sent. @default no quotas */
  readonly quotas?: QuotaOptions;
  /**
   * Whether anybody may read the description of the API, at `/v1/openapi.json` and `/v1/openapi.yaml`, and as a page below
   * the dashboard, at `reference/`. @default true
   */
  readonly serveOpenApi?: boolean;
  /** A page for customers: their webhooks, what was delivered and what was not. @default off */
  readonly dashboard?: DashboardOptions;
  /**
   * How long calls under way may still take when the gateway closes, in milliseconds. New calls get 503
   * `shutting_down`. Streams that have not ended by then get an error event and no `[DONE]`. At most 3_600_000.
   * @default 30_000
   */
  readonly drainTimeout?: number;
  /** Where the gateway logs. @default warnings and errors to the console */
  readonly logger?: Logger;
  /**
   * Whether `logger.info` gets a line for each request under `/v1`, and one for each attempt of a delivery, when it has ended. The
   * lines have ids, status and time, and no body, query, header or URL. The default logger drops them. @default false
   */
  readonly logRequests?: boolean;
  /** Who gets the trace context of spans. @default neither upstreams nor receivers */
  readonly tracing?: TracingOptions;
}

/** Parts that are off unless their option is given, and functions of the host's. */
export type OptionalOption =
  | 'authenticate'
  | 'onRequest'
  | 'onResponse'
  | 'onUsage'
  | 'onDisable'
  | 'limits'
  | 'quotas'
  | 'credits'
  | 'dashboard'
  | 'disableAfterDays'
  | 'streamHeartbeat'
  | 'proxy'
  | 'webhookProxy';

/** {@link ModelGatewayOptions}, checked, with every default filled in, frozen. */
export type ResolvedOptions = Readonly<
  Required<Omit<ModelGatewayOptions, OptionalOption>> & Pick<ModelGatewayOptions, OptionalOption>
>;
