import type { IncomingMessage } from 'node:http';
import type { Connection } from 'mongoose';
import { type CreditOptions, checkCreditOptions } from './credit-options.ts';
import { checkDashboardOptions, type DashboardOptions } from './dashboard-options.ts';
import { checkDisableOptions, type DisableOptions } from './disable-options.ts';
import { GatewayError } from './errors.ts';
import { checkEventTypes, type EventTypeOptions } from './event-type-options.ts';
import type { Principal } from './http/operation.ts';
import { checkLimitOptions, type LimitOptions } from './limit-options.ts';
import { consoleLogger, type Logger } from './logger.ts';
import type { ModelHooks } from './model-hooks.ts';
import { checkQuotaOptions, type QuotaOptions } from './quota-options.ts';
import { checkUpstreams, type UpstreamOptions } from './upstream-options.ts';

export type { CreditOptions } from './credit-options.ts';
export type { DashboardOptions } from './dashboard-options.ts';
export type { EventTypeOptions } from './event-type-options.ts';
export type { LimitOptions, RateLimits, RateLimitsFor } from './limit-options.ts';
export type { Logger } from './logger.ts';
export type {
  CallEnding,
  ModelAnswer,
  ModelCall,
  ModelHooks,
  OpenUsage,
  UsageRecord,
} from './model-hooks.ts';
export type { Quota, QuotaOptions } from './quota-options.ts';
export type { UpstreamOptions, UpstreamTimeouts } from './upstream-options.ts';

/** What {@link createModelGateway} takes. Durations are milliseconds, sizes bytes, unless a line says otherwise. */
export interface ModelGatewayOptions extends ModelHooks, DisableOptions {
  /** The host's own mongoose connection, or a MongoDB URI. Only what the gateway opened is closed by it. */
  readonly mongo: Connection | string;
  /**
   * Keys that seal webhook secrets at rest, each `<id>:<32 bytes in base64>`. The first seals, all open,
   * so a new key is put in front and the old ones stay until everything is sealed anew.
   */
  readonly secretKeys: readonly string[];
  /**
   * Whether `mongo` may be a standalone mongod. It gives up what a replica set is for: events survive the loss of
   * one machine, and `transaction` and `session` work. For trying things out. @default false
   */
  readonly allowStandalone?: boolean;
  /** The providers that model calls go to. @default [] (every model call answers 404 `model_not_found`) */
  readonly upstreams?: readonly UpstreamOptions[];
  /** Tries in all that a model call gets before its first byte, at every upstream that serves the model. @default 3 */
  readonly modelAttempts?: number;
  /** What a caller may be kept waiting between those tries, all waits together. @default 2_000 */
  readonly modelRetryWait?: number;
  /** Whether the name of the upstream that answered goes down as `x-gateway-upstream`. @default false */
  readonly exposeUpstream?: boolean;
  /**
   * Says whose request it is, before any body is read; `null` answers 401. A principal without `scopes` may do what an
   * account's owner may: `models`, `webhooks` and `keys`.
   * @default the gateway's own API keys, sent as `Authorization: Bearer …`
   */
  readonly authenticate?: (req: IncomingMessage) => Principal | null | Promise<Principal | null>;
  /** Put before the name of every collection and model. @default 'gateway_' */
  readonly collectionPrefix?: string;
  /** The waits before attempts 2, 3, …; at most five, each counted from the end of the attempt before. @default 1 min, 5 min, 30 min, 2 h, 8 h */
  readonly retryDelays?: readonly number[];
  /** The time one delivery attempt may take in all. @default 30_000 */
  readonly attemptTimeout?: number;
  /**
   * Requests of deliveries under way at once in this process. Measured on 2 cores with receivers that take 100 ms to answer:
   * 50 at once make 471 deliveries a second, 100 876, 200 1,410, 400 1,751; beyond 200 they wait for the processor more and more.
   * @default 200
   */
  readonly concurrency?: number;
  /**
   * Of those, requests under way at once to one webhook, in each process: a receiver that hangs never takes more.
   * @default 10
   */
  readonly concurrencyPerWebhook?: number;
  /** Whether webhooks may be plain http. @default false, whatever NODE_ENV says */
  readonly allowHttp?: boolean;
  /** Networks in CIDR notation that webhooks may reach although they are not public: `10.0.0.0/8`. @default [] */
  readonly allowPrivateNetworks?: readonly string[];
  /**
   * Event types of your own, by name: `{ 'order.shipped': { schema, example } }`. They are validated, subscribed to, sent
   * and listed like the eight of the gateway. @default {}
   */
  readonly eventTypes?: Readonly<Record<string, EventTypeOptions>>;
  /** Webhooks one account may have. @default 50 */
  readonly maxWebhooks?: number;
  /** What a recovery of one webhook sends again in a second, behind its new events. @default 50 */
  readonly recoverRate?: number;
  /** API keys that work one account may have; those revoked or expired do not count. @default 100 */
  readonly maxApiKeys?: number;
  /** How often one account may change its webhooks (create, update, rotate, delete) in a minute, in each process; beyond it 429. @default 300 */
  readonly managementRateLimit?: number;
  /** How much model calls may ask for, by key and by account. @default no limits */
  readonly limits?: LimitOptions;
  /** Prepaid credits: every call is charged, and refused when they are used up. @default off */
  readonly credits?: CreditOptions;
  /**
   * Whether model calls are recorded and counted; `onUsage` is told of them in any case. Quotas and credits need it.
   * @default true
   */
  readonly usage?: boolean;
  /** What accounts may use in a day or month, and when `usage.threshold` tells them. @default no quotas */
  readonly quotas?: QuotaOptions;
  /** A page for customers: their webhooks, what was delivered and what was not. @default off */
  readonly dashboard?: DashboardOptions;
  /** The largest body of a model call. @default 33_554_432 (32 MiB) */
  readonly modelBodyLimit?: number;
  /** The largest body of any other call. @default 262_144 (256 KiB) */
  readonly webhookBodyLimit?: number;
  /** Days that events and ended deliveries are kept; nothing pending ever expires. @default 30 */
  readonly retentionDays?: number;
  /**
   * How often a worker looks for what other processes have left to do: what is due or abandoned, events that wait for
   * their deliveries. At most 2_000. @default 425
   */
  readonly sweepInterval?: number;
  /**
   * Whether workers hear at once, by a change stream, of what other processes publish; for replica sets. Without, and
   * where there are no change streams, they find it by their sweeps. @default false
   */
  readonly changeStreams?: boolean;
  /** @default warnings and errors to the console */
  readonly logger?: Logger;
}

/** The options that are functions of the host's; none has a default here. */
const functionOptions = ['authenticate', 'onRequest', 'onResponse', 'onUsage', 'onDisable'] as const;
/** Parts that are off unless their option is given. */
const partOptions = ['limits', 'quotas', 'credits', 'dashboard', 'disableAfterDays'] as const;
type OptionalOption = (typeof functionOptions)[number] | (typeof partOptions)[number];

/** {@link ModelGatewayOptions}, checked, with every default filled in, frozen. */
export type ResolvedOptions = Readonly<
  Required<Omit<ModelGatewayOptions, OptionalOption>> & Pick<ModelGatewayOptions, OptionalOption>
>;

/** The schedule of interface.md, Events, rule 4: 1 min, 5 min, 30 min, 2 h, 8 h. */
export const defaultRetryDelays: readonly number[] = Object.freeze([60_000, 300_000, 1_800_000, 7_200_000, 28_800_000]);

const defaults = {
  allowStandalone: false,
  upstreams: [],
  modelAttempts: 3,
  modelRetryWait: 2_000,
  exposeUpstream: false,
  collectionPrefix: 'gateway_',
  retryDelays: defaultRetryDelays,
  attemptTimeout: 30_000,
  concurrency: 200,
  concurrencyPerWebhook: 10,
  allowHttp: false,
  allowPrivateNetworks: [],
  eventTypes: {},
  maxWebhooks: 50,
  recoverRate: 50,
  maxApiKeys: 100,
  usage: true,
  managementRateLimit: 300,
  disableOnGone: false,
  modelBodyLimit: 32 * 1024 * 1024,
  webhookBodyLimit: 256 * 1024,
  retentionDays: 30,
  sweepInterval: 425,
  changeStreams: false,
  logger: consoleLogger,
} satisfies Partial<ModelGatewayOptions>;

function refuse(param: string, message: string): never {
  throw new GatewayError('invalid_options', `${param}: ${message}`, { param });
}

function checkInteger(options: ResolvedOptions, name: keyof ResolvedOptions, min: number, max: number): void {
  const value = options[name];
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) {
    refuse(name, `must be a whole number from ${min} to ${max}, not ${String(value)}`);
  }
}

function checkRetryDelays(delays: readonly number[]): void {
  if (!Array.isArray(delays) || delays.length > defaultRetryDelays.length) {
    refuse('retryDelays', `must be a list of at most ${defaultRetryDelays.length} delays in milliseconds`);
  }
  delays.forEach((delay, i) => {
    if (!Number.isInteger(delay) || delay < 0)
      refuse(`retryDelays[${i}]`, 'must be a whole number of milliseconds, 0 or more');
  });
}

/**
 * Checks the options and fills in the defaults.
 * @throws GatewayError `invalid_options`, naming the option in `param` and the fix in the message
 */
export function resolveOptions(given: ModelGatewayOptions): ResolvedOptions {
  const known = new Set([...Object.keys(defaults), 'mongo', 'secretKeys', ...functionOptions, ...partOptions]);
  for (const name of Object.keys(given)) {
    if (!known.has(name)) refuse(name, `is not an option; there are ${[...known].sort().join(', ')}`);
  }
  const stated = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const options: ResolvedOptions = { ...defaults, ...stated, mongo: given.mongo, secretKeys: given.secretKeys };

  if (!options.mongo) refuse('mongo', 'is required: a mongoose connection or a MongoDB URI');
  if (!Array.isArray(options.secretKeys) || options.secretKeys.length === 0) {
    refuse(
      'secretKeys',
      "is required: at least one '<id>:<32 bytes in base64>', for instance from `openssl rand -base64 32`",
    );
  }
  if (!/^[A-Za-z][A-Za-z0-9_-]{0,40}$/.test(options.collectionPrefix)) {
    refuse(
      'collectionPrefix',
      'must start with a letter and have only letters, digits, _ and -, 41 characters at most',
    );
  }
  checkRetryDelays(options.retryDelays);
  checkUpstreams(options.upstreams);
  if (options.credits !== undefined) checkCreditOptions(options.credits);
  if (options.limits !== undefined) checkLimitOptions(options.limits);
  if (options.dashboard !== undefined) checkDashboardOptions(options.dashboard);
  if (options.quotas !== undefined) checkQuotaOptions(options.quotas, options.credits !== undefined);
  checkEventTypes(options.eventTypes);
  if (typeof options.usage !== 'boolean') refuse('usage', 'must be true or false');
  for (const name of ['quotas', 'credits'] as const) {
    if (options[name] !== undefined && !options.usage) refuse('usage', `must be true for the option ${name}`);
  }
  checkDisableOptions(options);
  checkInteger(options, 'modelAttempts', 1, 20);
  checkInteger(options, 'modelRetryWait', 0, 60_000);
  checkInteger(options, 'attemptTimeout', 1, 30_000);
  checkInteger(options, 'concurrency', 1, 10_000);
  checkInteger(options, 'concurrencyPerWebhook', 1, 10_000);
  checkInteger(options, 'maxWebhooks', 1, 100_000);
  checkInteger(options, 'recoverRate', 1, 10_000);
  checkInteger(options, 'maxApiKeys', 1, 100_000);
  checkInteger(options, 'managementRateLimit', 1, 1_000_000);
  checkInteger(options, 'modelBodyLimit', 1, 1024 ** 3);
  checkInteger(options, 'webhookBodyLimit', 1, 16 * 1024 ** 2);
  checkInteger(options, 'retentionDays', 1, 3_650);
  checkInteger(options, 'sweepInterval', 1, 2_000);
  for (const name of functionOptions) {
    if (options[name] !== undefined && typeof options[name] !== 'function') refuse(name, 'must be a function');
  }
  return Object.freeze(options);
}
