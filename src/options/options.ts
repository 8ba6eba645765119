import type { IncomingMessage } from 'node:http';
import type { Connection, Mongoose } from 'mongoose';
import type { CreditOptions, LimitOptions, QuotaOptions } from './accounts.ts';
import type { EndpointOptions } from './endpoints.ts';
import type { Logger } from './logger.ts';
import type { ModelHooks } from './model-hooks.ts';
import type { Principal } from './principal.ts';
import type {
  BackgroundOptions,
  DashboardOptions,
  ModelCallOptions,
  SocketOptions,
  TracingOptions,
} from './process.ts';
import type { UpstreamOptions } from './upstreams.ts';
import type { DeliveryOptions, EventTypeOptions } from './webhooks.ts';

export type * from './accounts.ts';
export type { EndpointOptions } from './endpoints.ts';
export type { Logger } from './logger.ts';
export type * from './model-hooks.ts';
export type { DashboardOptions } from './process.ts';
export type { UpstreamOptions, UpstreamTimeouts } from './upstreams.ts';
export { defaultRetryDelays, type EventTypeOptions } from './webhooks.ts';

/** What {@link createModelGateway} takes. Durations are milliseconds, sizes bytes, unless a line says otherwise. */
export interface ModelGatewayOptions<Custom extends string = string> extends ModelHooks {
  /** Your own mongoose connection, mongoose itself for its default connection, or a MongoDB URI. The gateway closes only what it opened. @when always */
  readonly mongo: Connection | Mongoose | string;
  /**
   * Keys that seal webhook secrets at rest, each `<id>:<32 bytes in base64>`. The first seals, and all of them open. With
   * several processes a new key must not come first at once: docs/operating.md, Upkeep, has the steps. What upstreams get for an
   * `Idempotency-Key` is derived from the key whose id comes first (k9 before k10): give newer keys higher ids.
   * @when always
   */
  readonly secretKeys: readonly string[];
  /**
   * Whether `mongo` may be a standalone mongod. Then events do not survive the loss of its machine, `transaction` and
   * `session` do not work, and only one process may call `start()`: two can count usage twice. For trying things out. @default false @when you try it without a replica set
   */
  readonly allowStandalone?: boolean;
  /** The providers that model calls go to. @default [] (every model call answers 404 `model_not_found`) */
  readonly upstreams?: readonly UpstreamOptions[];
  /** Endpoints of your upstreams that the gateway does not know: it relays, counts and describes them like its own. @default [] @when your upstreams have more than the gateway serves */
  readonly endpoints?: readonly EndpointOptions[];
  /**
   * The proxy that upstreams are called through, with its credentials: `http://user:password@proxy.example.com:3128`. It must allow CONNECT to their hosts,
   * for http URLs too. Deliveries never go through it. @default none: variables of the environment are not read
   * @when providers are reached only through a proxy
   */
  readonly proxy?: string;
  /** How model calls are tried and answered. @default the defaults of its options */
  readonly modelCalls?: ModelCallOptions;
  /** How responses are followed that upstreams make in the background. @default the defaults of its options */
  readonly background?: BackgroundOptions;
  /** WebSockets, for realtime sessions and responses. @default the defaults of its options */
  readonly sockets?: SocketOptions;
  /**
   * Says whose request it is, before any body is read; `null` answers 401. A principal without `scopes` may do what an
   * account's owner may: `models`, `webhooks` and `keys`. Where the router is mounted in Express, the request is
   * Express's, with what your middleware has added. In front of Express it is Node's alone.
   * @default the gateway's own API keys, sent as `Authorization: Bearer …`
   * @when you have accounts and keys of your own
   */
  readonly authenticate?: (req: IncomingMessage) => Principal | null | Promise<Principal | null>;
  /** Put before the name of every collection and model. @default 'gateway_' @when two gateways share a database */
  readonly collectionPrefix?: string;
  /**
   * Whether the gateway builds the indexes that are missing when it starts. With `'check'` it builds none and refuses to start
   * while one is missing: `npx express-model-gateway migrate` builds them. @default 'build' @when indexes are built before a release
   */
  readonly indexes?: 'build' | 'check';
  /**
   * Event types of your own, by name: `{ 'order.shipped': { schema, example } }`. The gateway validates, sends and lists them
   * like its own eight, and webhooks subscribe to them. @default {}
   */
  readonly eventTypes?: Readonly<Record<Custom, EventTypeOptions>>;
  /**
   * Whether webhooks may be plain http. If false, attempts of one that was registered before fail with `http_not_allowed`.
   * @default false, whatever NODE_ENV says
   * @when receivers are in your own network, or you develop one
   */
  readonly allowHttp?: boolean;
  /** Networks in CIDR notation that webhooks may reach although they are not public: `10.0.0.0/8`. @default [] @when receivers are in your own network, or you develop one */
  readonly allowPrivateNetworks?: readonly string[];
  /**
   * The waits before attempts 2, 3, …; at most five, each counted from the end of the attempt before.
   * @default 1 min, 5 min, 30 min, 2 h, 8 h
   * @when your customers' receivers are back sooner, or must be given up sooner
   */
  readonly retryDelays?: readonly number[];
  /** How else events are delivered, how long they are kept, and when webhooks are disabled. @default the defaults of its options */
  readonly deliveries?: DeliveryOptions;
  /** What accounts may have and ask for, and what a process takes at once. @default the defaults of its options */
  readonly limits?: LimitOptions;
  /** Prepaid credits: every call is charged, and is refused when the credits are used up. @default off */
  readonly credits?: CreditOptions;
  /**
   * Whether model calls are recorded and counted. `onUsage` is called in any case. Quotas and credits need this.
   * @default true
   * @when you count usage elsewhere
   */
  readonly usage?: boolean;
  /** What accounts may use in a day or month, and when `usage.threshold` is sent. @default no quotas */
  readonly quotas?: QuotaOptions;
  /**
   * Whether anybody may read the description of the API, at `/v1/openapi.json` and `/v1/openapi.yaml`, and as a page below
   * the dashboard, at `reference/`. @default true @when your API is not public
   */
  readonly serveOpenApi?: boolean;
  /** A page for customers: their webhooks, what was delivered and what was not. @default off */
  readonly dashboard?: DashboardOptions;
  /**
   * How long calls under way may still take when the gateway closes, in milliseconds. New calls get 503
   * `shutting_down`. Streams that have not ended by then get an error event and no `[DONE]`. At most 3_600_000.
   * @default 30_000
   * @when your platform gives a process more time to end, or less
   */
  readonly drainTimeout?: number;
  /** Where the gateway logs. @default warnings and errors to the console @when you have a logger */
  readonly logger?: Logger;
  /**
   * Whether `logger.info` gets a line for each request under `/v1`, and one for each attempt of a delivery, when it has ended. The
   * lines have ids, status and time, and no body, query, header or URL. The default logger drops them. @default false @when no other log has requests
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
  | 'quotas'
  | 'credits'
  | 'dashboard'
  | 'proxy';

type Filled<Options, Optional extends keyof Options = never> = Readonly<
  Required<Omit<Options, Optional>> & Pick<Options, Optional>
>;

/** The groups that every gateway has. */
interface ResolvedGroups {
  readonly modelCalls: Filled<ModelCallOptions, 'streamHeartbeat'>;
  readonly background: Filled<BackgroundOptions>;
  readonly sockets: Filled<SocketOptions>;
  readonly deliveries: Filled<DeliveryOptions, 'proxy' | 'disableAfterDays' | 'onDisable'>;
  readonly limits: Filled<LimitOptions, 'perKey' | 'perUser'>;
  readonly tracing: Filled<TracingOptions>;
}

/** {@link ModelGatewayOptions}, checked, with every default filled in, frozen. */
export type ResolvedOptions = Filled<Omit<ModelGatewayOptions, keyof ResolvedGroups>, OptionalOption> & ResolvedGroups;
