import {
  accountRows,
  type CreditOptions,
  type LimitOptions,
  type Quota,
  type QuotaOptions,
  type RateLimits,
} from './accounts.ts';
import { checkEndpoints } from './endpoints.ts';
import {
  aFunction,
  type Check,
  checkKeys,
  duration,
  isObject,
  jsonObject,
  type Kind,
  listOf,
  matching,
  oneOf,
  proxyUrl,
  readAs,
  refuseOption,
  unchecked,
  wholeNumber,
  yesOrNo,
} from './kinds.ts';
import { consoleLogger } from './logger.ts';
import type { ModelGatewayOptions, OptionalOption } from './options.ts';
import {
  type BackgroundOptions,
  checkDashboardPath,
  type DashboardOptions,
  type ModelCallOptions,
  type SocketOptions,
  type TracingOptions,
} from './process.ts';
import { checkUpstreams, type UpstreamOptions } from './upstreams.ts';
import { checkDays, checkEventTypes, checkRetryDelays, type DeliveryOptions, defaultRetryDelays } from './webhooks.ts';

/** The environment variable of an option. Errors, `--help` and docs/variables.md describe it by this. */
interface OptionVariable {
  readonly variable: string;
  /** A sentence without its full stop. */
  readonly meaning: string;
  readonly example: string;
  /** What holds where it is not set, in words. @default the text of the option's default */
  readonly byDefault?: string;
  /** Whether errors must not repeat the value. */
  readonly secret?: true;
}

/** One option: what it may be, what it is where it is left out, and the variable that sets it. */
type Row<T> = { readonly default?: T | ((given: ModelGatewayOptions) => T); readonly required?: true } & (
  | { readonly check: Check }
  | { readonly kind: Kind<T> }
  | ({ readonly kind: Kind<T> } & OptionVariable)
);

type Rows<Options, Prefix extends string = ''> = {
  readonly [Name in keyof Options & string as `${Prefix}${Name}`]-?: Row<NonNullable<Options[Name]>>;
};

/** Every option by its path; the compiler holds them to the types that hosts see. */
type Table = Rows<ModelGatewayOptions> &
  Rows<ModelCallOptions, 'modelCalls.'> &
  Rows<BackgroundOptions, 'background.'> &
  Rows<SocketOptions, 'sockets.'> &
  Rows<DeliveryOptions, 'deliveries.'> &
  Rows<TracingOptions, 'tracing.'> &
  Rows<DashboardOptions, 'dashboard.'> &
  Rows<LimitOptions, 'limits.'> &
  Rows<RateLimits, 'limits.perKey.' | 'limits.perUser.'> &
  Rows<QuotaOptions, 'quotas.'> &
  Rows<Quota, 'quotas.perUser.'> &
  Rows<CreditOptions, 'credits.'> & {
    readonly [Name in Exclude<keyof ModelGatewayOptions, OptionalOption | 'mongo' | 'secretKeys'>]: {
      readonly default: unknown;
    };
  };

/** `drainTimeout`, `limits.perKey.tokensPerMinute` */
export type OptionPath = keyof Table;

const defaultConcurrency = 200;
const [hour, day] = [3_600_000, 86_400_000] as const;

/** A quota, which is no function. @throws GatewayError `invalid_options` */
export const checkQuotaObject: Check = group('quotas.perUser', 'must be a quota, or a function that gives some');

/** {@link Table}, each part in the order in which an error lists its options. */
export const table = {
  mongo: {
    check(param, mongo) {
      if (!mongo) refuseOption(param, 'is required: a mongoose connection or a MongoDB URI');
    },
    required: true,
  },
  secretKeys: {
    check(param, keys) {
      if (Array.isArray(keys) && keys.length > 0) return;
      const example = "'<id>:<32 bytes in base64>', for instance from `openssl rand -base64 32`";
      refuseOption(param, `is required: at least one ${example}`);
    },
    required: true,
  },
  allowStandalone: { kind: yesOrNo, default: false },
  collectionPrefix: {
    kind: matching(
      /^[A-Za-z][A-Za-z0-9_-]{0,40}$/,
      'a letter, then at most 40 letters, digits, _ and -',
      'must start with a letter and have only letters, digits, _ and -, 41 characters at most',
    ),
    default: 'gateway_',
    variable: 'COLLECTION_PREFIX',
    meaning: 'Put before the name of every collection',
    example: 'llm_',
  },
  indexes: {
    kind: oneOf('build', 'check'),
    default: 'build',
    variable: 'INDEXES',
    meaning:
      'Whether the start builds missing indexes, or refuses to start without them; then the command migrate builds them',
    example: 'check',
  },

  upstreams: { check: (_, upstreams) => checkUpstreams(upstreams as readonly UpstreamOptions[]), default: [] },
  endpoints: { check: checkEndpoints, default: [] },
  proxy: { kind: proxyUrl },
  modelCalls: { check: group('modelCalls'), default: {} },
  'modelCalls.attempts': { kind: wholeNumber(1, 20), default: 3 },
  'modelCalls.exposeUpstream': { kind: yesOrNo, default: false },
  'modelCalls.abortOnDisconnect': { kind: yesOrNo, default: true },
  'modelCalls.streamHeartbeat': {
    kind: duration(100, hour),
    variable: 'STREAM_HEARTBEAT',
    meaning: 'After how long without anything to send a stream of events gets a comment, which clients pass over',
    byDefault: 'never',
    example: '15s',
  },
  'modelCalls.keyGracePeriod': { kind: duration(0, day), default: 300_000 },
  onRequest: { check: aFunction },
  onResponse: { check: aFunction },
  onUsage: { check: aFunction },
  sockets: { check: group('sockets'), default: {} },
  'sockets.maxPerAccount': { kind: wholeNumber(1, 100_000), default: 100 },
  'sockets.idleTimeout': { kind: duration(1, day), default: 600_000 },
  background: { check: group('background'), default: {} },
  'background.pollInterval': { kind: duration(10, 60_000), default: 2_000 },
  'background.timeout': { kind: duration(1_000, 7 * day), default: day },

  allowHttp: { kind: yesOrNo, default: false },
  allowPrivateNetworks: { check: unchecked, default: [] },
  retryDelays: {
    kind: readAs(
      listOf(duration(0, 365 * day), 5, 'at most five durations such as 300ms,1m,2h, or none'),
      checkRetryDelays,
    ),
    default: defaultRetryDelays,
    variable: 'RETRY_DELAYS',
    meaning: 'Waits before attempts 2 to 6 of a delivery, each counted from the end of the previous attempt',
    example: '2s,4s,8s',
  },
  deliveries: { check: group('deliveries'), default: {} },
  'deliveries.proxy': {
    kind: proxyUrl,
    variable: 'WEBHOOK_PROXY',
    meaning: 'An egress proxy that all deliveries go through; it then decides which addresses receivers may have',
    byDefault: 'none',
    example: 'http://smokescreen.internal:4750',
    secret: true,
  },
  'deliveries.disableAfterDays': {
    kind: readAs(wholeNumber(1, 365), checkDays),
    variable: 'DISABLE_AFTER_DAYS',
    meaning: 'Days after which a webhook is disabled if every attempt failed',
    byDefault: 'never',
    example: '5',
  },
  'deliveries.disableOnGone': { kind: yesOrNo, default: false },
  'deliveries.onDisable': { check: aFunction },
  'deliveries.honorRetryAfter': { kind: yesOrNo, default: false },
  'deliveries.attemptTimeout': {
    kind: duration(1, 30_000),
    default: 30_000,
    variable: 'ATTEMPT_TIMEOUT',
    meaning: 'Longest time that one delivery attempt may take',
    example: '10s',
  },
  'deliveries.concurrency': {
    kind: wholeNumber(1, 10_000),
    default: defaultConcurrency,
    variable: 'CONCURRENCY',
    meaning: 'Maximum number of delivery attempts at once',
    example: '400',
  },
  'deliveries.concurrencyPerAccount': {
    kind: wholeNumber(1, 10_000),
    default: ({ deliveries }) => Math.ceil((deliveries?.concurrency ?? defaultConcurrency) / 4),
  },
  'deliveries.concurrencyPerWebhook': { kind: wholeNumber(1, 10_000), default: 10 },
  'deliveries.changeStreams': { kind: yesOrNo, default: false },
  'deliveries.sweepInterval': { kind: wholeNumber(1, 2_000), default: 425 },
  'deliveries.retentionDays': {
    kind: wholeNumber(1, 3_650),
    default: 30,
    variable: 'RETENTION_DAYS',
    meaning: 'Days that events and ended deliveries are kept',
    example: '90',
  },
  eventTypes: {
    kind: readAs(jsonObject, checkEventTypes),
    default: {},
    variable: 'EVENT_TYPES',
    meaning: 'Your own event types by name, each with the JSON schema of its data and an example',
    byDefault: 'none',
    example: 'event-types.json',
  },

  authenticate: { check: aFunction },
  limits: { check: group('limits'), default: {} },
  'limits.perKey': { check: orFunction(group('limits.perKey', 'must be limits, or a function that gives some')) },
  'limits.perUser': { check: orFunction(group('limits.perUser', 'must be limits, or a function that gives some')) },
  usage: { kind: yesOrNo, default: true },
  quotas: { check: group('quotas') },
  'quotas.perUser': { check: orFunction(checkQuotaObject), required: true },
  credits: { check: group('credits') },
  ...accountRows,

  dashboard: { check: group('dashboard', "must be an object: { path: '/dashboard' }") },
  'dashboard.path': { check: checkDashboardPath, required: true },
  'dashboard.authenticate': { check: aFunction },
  serveOpenApi: {
    kind: yesOrNo,
    default: true,
    variable: 'SERVE_OPENAPI',
    meaning:
      'Whether anybody may read the description of the API, at /v1/openapi.json, /v1/openapi.yaml and /dashboard/reference/',
    example: 'false',
  },
  drainTimeout: {
    kind: duration(0, hour),
    default: 30_000,
    variable: 'DRAIN_TIMEOUT',
    meaning: 'How long open calls may still run when the gateway stops; then their streams end with an error',
    example: '2m',
  },
  logger: { check: unchecked, default: consoleLogger },
  logRequests: { kind: yesOrNo, default: false },
  tracing: { check: group('tracing', 'must be an object: { propagateToUpstreams: true }'), default: {} },
  'tracing.propagateToUpstreams': { kind: yesOrNo, default: false },
  'tracing.propagateToReceivers': { kind: yesOrNo, default: false },
} as const satisfies Table;

type NamedRows = readonly (readonly [name: string, row: Row<unknown>])[];

/** The options of a group, such as `limits`, by their names in it; those of the gateway itself where there is no group. */
export function rowsIn(group?: OptionPath): NamedRows {
  const prefix = group === undefined ? '' : `${group}.`;
  return Object.entries(table)
    .filter(([path]) => path.startsWith(prefix) && !path.slice(prefix.length).includes('.'))
    .map(([path, row]) => [path.slice(prefix.length), row as Row<unknown>]);
}

/** Whether an option is a group that every gateway has: what is left out of it has defaults. */
export function isGroupOfAll(path: OptionPath): boolean {
  return Object.hasOwn(table, path) && 'default' in table[path] && rowsIn(path).length > 0;
}

/** Checks values by their rows; what is left out is checked where it is required. @throws GatewayError `invalid_options` */
export function checkRows(values: Readonly<Record<string, unknown>>, group?: OptionPath, rows = rowsIn(group)): void {
  for (const [name, row] of rows) {
    if (values[name] === undefined && !row.required) continue;
    const check = 'kind' in row ? row.kind.check : row.check;
    check(group === undefined ? name : `${group}.${name}`, values[name]);
  }
}

/** Makes a check of an object whose options have rows of their own. */
function group(path: OptionPath, problem = 'must be an object'): Check {
  let rows: NamedRows | undefined;
  return (param, value) => {
    if (!isObject(value)) refuseOption(param, problem);
    // only now, because the table is made with this check; and once, because a quota can be checked for each call
    rows ??= rowsIn(path);
    const names = rows.map(([name]) => name);
    checkKeys(param, value, names);
    checkRows(value, path, rows);
  };
}

function orFunction(check: Check): Check {
  return (param, value) => typeof value === 'function' || check(param, value);
}
