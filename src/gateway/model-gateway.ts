import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ClientSession } from 'mongoose';
import type { Registry } from 'prom-client';
import type { BudgetService } from '../accounting/budgets.ts';
import type { CreditService } from '../accounting/credits.ts';
import type { LimitService } from '../accounting/limits.ts';
import type { PaymentService } from '../accounting/payments.ts';
import type { ReportUsage } from '../accounting/report.ts';
import type { DeliveryHistory } from '../deliveries/history.ts';
import type { EventHistory } from '../events/history.ts';
import type { EventInput, PublishedEvent, PublishOptions } from '../events/service.ts';
import type { GatewayRouter } from '../http/router.ts';
import type { KeyService } from '../keys/service.ts';
import type { ProcessService } from '../operator/processes.ts';
import type { AdminService } from '../operator/service.ts';
import type { WebhookService } from '../webhooks/service.ts';
import type { GatewayHealth } from './health/gateway-health.ts';
import type { GatewayNotifications, NotificationListener } from './notifications.ts';

/**
 * A gateway, ready to be mounted.
 * @typeParam Custom the names of the option `eventTypes`, besides its own that `publish` takes. @default any name
 */
export interface ModelGateway<Custom extends string = string> {
  /**
   * Everything under `/v1`, and the dashboard: an `express.Router()`. Mount it at the root or under any prefix:
   * `app.use(gateway.router)`. Or put it in front of your app, at the root, where a call costs less:
   * `http.createServer((req, res) => gateway.router(req, res, () => app(req, res)))`. It gives `next` what is not its own;
   * without `next` that is answered 404: `endpoint_not_served` below `/v1`, `not_found` elsewhere.
   */
  readonly router: GatewayRouter;
  /**
   * Takes a request of the server's event `upgrade` if it asks for a WebSocket at `/v1/realtime`, `/v1/realtime/translations` or `/v1/responses`; any other
   * is left as it is. It reads `req.url` as the router does in front of Express: take the prefix away that you mount the router under.
   * @returns whether the request was the gateway's, which then takes care of the connection
   */
  upgrade(req: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  /**
   * Listens for a server's event `upgrade`, and takes what is the gateway's. The rest is left to your other listeners. If there are none, it
   * is served as a plain request, as it would be if nobody listened.
   * @param options `prefix`: the path that the router is mounted under, such as `/api`. @default the root
   * @throws GatewayError `websocket_not_served` on Bun
   */
  attach(server: Server, options?: { readonly prefix?: string }): void;
  /** API keys: create, update, revoke, list; and `authenticate`, for a host that takes them beside its own. */
  readonly keys: Pick<KeyService, 'create' | 'authenticate' | 'update' | 'revoke' | 'list' | 'get'>;
  /** Any account's webhooks, as its owner sees them over HTTP; and `reseal`, for all of them at once. */
  readonly webhooks: Pick<WebhookService, 'create' | 'list' | 'get' | 'update' | 'rotateSecret' | 'remove' | 'reseal'>;
  /** Tells of calls that a limiter of the host's own has refused. */
  readonly limits: Pick<LimitService, 'reportExceeded'>;
  /** The most that an account may use; absent with the option `usage: false`. */
  readonly budgets?: Pick<BudgetService, 'get' | 'set'>;
  /** Prepaid credits; only with the option `credits`. */
  readonly credits?: Pick<CreditService, 'topUp' | 'balance'>;
  /** Any account's events, newest first, and what became of each. */
  readonly events: Pick<EventHistory, 'list' | 'get'>;
  /** Any account's deliveries, newest first, with their attempts. */
  readonly deliveries: DeliveryHistory;
  /** What an account has used, by day, model and key; absent with the option `usage: false`. */
  readonly usage?: { readonly report: ReportUsage };
  /** What the operator sees of all accounts, processes and upstreams, as with the scope `admin` over HTTP. */
  readonly admin: AdminService & ProcessService;
  /** What the host's payment processor reports: `completed` and `failed`. */
  readonly payments: PaymentService;
  /**
   * Makes delivery attempts in this process from now on. Publishing works without it, as long as some process does.
   * @throws GatewayError `jobs_unavailable` where Agenda, an ES module, cannot be imported, as in Jest; nothing has begun then
   */
  start(): Promise<void>;
  /**
   * Publishes an event to the account's webhooks. Once it resolves, the event cannot be lost.
   * @throws GatewayError `unknown_event_type`, `invalid_event_data`, `invalid_value`, `idempotency_conflict`,
   *   `weak_write_concern`: nothing was stored; `database_unavailable`: nothing was stored, publish again later; or `publish_unconfirmed`: publish again with the `idempotencyKey` it carries
   */
  publish(input: EventInput<Custom>, options?: PublishOptions): Promise<PublishedEvent>;
  /** Runs the host's own writes and what it publishes under `session` as one transaction, and starts the deliveries on commit. */
  transaction<T>(fn: (session: ClientSession) => Promise<T>): Promise<T>;
  /**
   * Calls a function whenever something happens that people need to be told of. The process whose write has made the change
   * calls its listeners: of several processes, one. Which names there are, `GatewayNotifications` says.
   * @throws GatewayError `invalid_value` for a name that does not exist, or a listener that is no function
   */
  on<Name extends keyof GatewayNotifications>(name: Name, listener: NotificationListener<Name>): void;
  /** Stops calling it. */
  off<Name extends keyof GatewayNotifications>(name: Name, listener: NotificationListener<Name>): void;
  /**
   * What this gateway counts and measures, for Prometheus. `await gateway.metrics().metrics()` is the text of one scrape;
   * `Registry.merge([register, gateway.metrics()])` joins it with the host's own. No label names an account, key, webhook or model.
   */
  metrics(): Registry;
  /** Whether this process should get requests, and why not: for the readiness probe of whatever balances load. Within a second or so. */
  health(): Promise<GatewayHealth>;
  /**
   * Takes no more requests (503 `shutting_down`), lets calls under way end (`drainTimeout`) and attempts in flight (35 s at
   * most), closes what the gateway opened. Resolves when all of it has ended. May be called again.
   * @param options `delay`: how long the gateway goes on as before first, while `health()` already says that it is not ready, so
   *   that load balancers find out before a request is refused. Another `close()` ends the delay. Milliseconds, at most an hour. @default 0
   * @throws GatewayError `invalid_value` for a `delay` that is no whole number from 0 to 3_600_000
   */
  close(options?: { readonly delay?: number }): Promise<void>;
}
