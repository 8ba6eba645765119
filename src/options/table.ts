import {
  accountRows,
  type CreditOptions,
  type LimitOptions,
  type Quota,
  type QuotaOptions,
  type RateLimits,
} from './accounts.ts';
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
import { checkDashboardPath, type DashboardOptions, leastBodyMemory, type TracingOptions } from './process.ts';
import { checkUpstreams, type UpstreamOptions } from './upstreams.ts';
import { checkDays, checkEventTypes, checkRetryDelays, defaultRetryDelays } from './webhooks.ts';

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

/** `maxWebhooks`, `limits.perKey.tokensPerMinute` */
export type OptionPath = keyof Table;

const mebibyte = 1024 ** 2;
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
  keyGracePeriod: {
    kind: duration(0, day, 'a duration from 0ms to 1d'),
    default: 300_000,
    variable: 'KEY_GRACE_PERIOD',
    meaning: 'How long a key that this process has checked can make model calls while MongoDB is unavailable',
    example: '1h',
  },
  usageBacklog: {
    kind: wholeNumber(1, 10_000_000),
    default: 100_000,
    variable: 'USAGE_BACKLOG',
    meaning:
      'Maximum number of usage records kept in memory while MongoDB is unavailable; above it the oldest are lost',
    example: '20000',
  },

  upstreams: { check: (_, upstreams) => checkUpstreams(upstreams as readonly UpstreamOptions[]), default: [] },
  proxy: { kind: proxyUrl },
  modelAttempts: { kind: wholeNumber(1, 20), default: 3 },
  modelRetryWait: { kind: wholeNumber(0, 60_000), default: 2_000 },
  exposeUpstream: { kind: yesOrNo, default: false },
  abortOnDisconnect: {
    kind: yesOrNo,
    default: true,
    variable: 'ABORT_ON_DISCONNECT',
    meaning: 'Whether the upstream call stops when the client disconnects; false lets it finish, for its exact usage',
    example: 'false',
  },
  streamHeartbeat: {
    kind: duration(100, hour),
    variable: 'STREAM_HEARTBEAT',
    meaning: 'After how long without anything to send a stream of events gets a comment, which clients pass over',
    byDefault: 'never',
    example: '15s',
  },
  onRequest: { check: aFunction },
  onResponse: { check: aFunction },
  onUsage: { check: aFunction },
  modelBodyLimit: { kind: wholeNumber(1, 1024 * mebibyte), default: 32 * mebibyte },
  webhookBodyLimit: { kind: wholeNumber(1, 16 * mebibyte), default: 256 * 1024 },
  maxFileBytes: {
    kind: wholeNumber(1, 16 * 1024 * mebibyte),
    default: 512 * mebibyte,
    variable: 'MAX_FILE_BYTES',
    meaning: 'Maximum bytes of a file, or of a part of an upload',
    byDefault: '536870912 (512 MiB)',
    example: '104857600',
  },
  maxFiles: {
    kind: wholeNumber(1, 1_000_000),
    default: 10_000,
    variable: 'MAX_FILES',
    meaning: 'Maximum number of files that an account has at once',
    example: '1000',
  },
  bodyMemory: {
    // what an option may be follows from others
    kind: readAs(wholeNumber(64 * mebibyte, 1024 ** 4), unchecked),
    default: (given) => Math.max(256 * mebibyte, leastBodyMemory(given)),
    variable: 'BODY_MEMORY',
    meaning:
      'Maximum bytes of request bodies and of unfinished or waiting messages of WebSockets held at once; above it a request gets 429 or 503, and a WebSocket is closed with 1013',
    byDefault: '268435456 (256 MiB)',
    example: '1073741824',
  },
  maxSockets: {
    kind: wholeNumber(1, 100_000),
    default: 100,
    variable: 'MAX_SOCKETS',
    meaning: 'Maximum number of WebSockets that an account has open at once, in each process',
    example: '1000',
  },
  maxSocketMessageBytes: {
    kind: wholeNumber(1, 128 * mebibyte),
    default: 16 * mebibyte,
    variable: 'MAX_SOCKET_MESSAGE_BYTES',
    meaning: 'Maximum bytes of a message of a WebSocket, either way; a longer one closes it with 1009',
    byDefault: '16777216 (16 MiB)',
    example: '1048576',
  },
  socketIdleTimeout: {
    kind: duration(1, day),
    default: 600_000,
    variable: 'SOCKET_IDLE_TIMEOUT',
    meaning: 'How long a WebSocket may be without a message before it is closed',
    example: '1h',
  },
  storedRetentionDays: {
    kind: wholeNumber(1, 3_650),
    default: 30,
    variable: 'STORED_RETENTION_DAYS',
    meaning: 'Days that the gateway remembers whose a stored response or chat completion is',
    example: '90',
  },
  backgroundPollInterval: {
    kind: duration(10, 60_000),
    default: 2_000,
    variable: 'BACKGROUND_POLL_INTERVAL',
    meaning:
      'How long after its first answer the upstream is asked whether a background response has ended; each further wait is half as long again',
    example: '5s',
  },
  backgroundPollLimit: {
    kind: duration(10, hour),
    default: 60_000,
    variable: 'BACKGROUND_POLL_LIMIT',
    meaning: 'The longest wait between two polls of one background response',
    example: '5m',
  },
  backgroundTimeout: {
    kind: duration(1_000, 7 * day),
    default: day,
    variable: 'BACKGROUND_TIMEOUT',
    meaning:
      'How long the gateway follows a background response; one that has not ended by then is charged by estimate',
    example: '2h',
  },

  allowHttp: { kind: yesOrNo, default: false },
  allowPrivateNetworks: { check: unchecked, default: [] },
  webhookProxy: {
    kind: proxyUrl,
    variable: 'WEBHOOK_PROXY',
    meaning: 'An egress proxy that all deliveries go through; it then decides which addresses receivers may have',
    byDefault: 'none',
    example: 'http://smokescreen.internal:4750',
    secret: true,
  },
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
  honorRetryAfter: {
    kind: yesOrNo,
    default: false,
    variable: 'HONOR_RETRY_AFTER',
    meaning: "Whether a receiver's Retry-After can postpone the next attempt, at most 24 hours; it makes none earlier",
    example: 'true',
  },
  attemptTimeout: {
    kind: duration(1, 30_000),
    default: 30_000,
    variable: 'ATTEMPT_TIMEOUT',
    meaning: 'Longest time that one delivery attempt may take',
    example: '10s',
  },
  concurrency: {
    kind: wholeNumber(1, 10_000),
    default: 200,
    variable: 'CONCURRENCY',
    meaning: 'Maximum number of delivery attempts at once',
    example: '400',
  },
  concurrencyPerAccount: {
    kind: wholeNumber(1, 10_000),
    default: ({ concurrency = 200 }) => Math.ceil(concurrency / 4),
    variable: 'CONCURRENCY_PER_ACCOUNT',
    meaning: 'Maximum of those attempts for one account whose receivers are slow',
    byDefault: 'a quarter of CONCURRENCY',
    example: '100',
  },
  concurrencyPerWebhook: {
    kind: wholeNumber(1, 10_000),
    default: 10,
    variable: 'CONCURRENCY_PER_WEBHOOK',
    meaning: 'Maximum of those attempts to one webhook',
    example: '20',
  },
  changeStreams: {
    kind: yesOrNo,
    default: false,
    variable: 'CHANGE_STREAMS',
    meaning: 'Whether a change stream tells workers at once what other processes publish',
    example: 'true',
  },
  sweepInterval: { kind: wholeNumber(1, 2_000), default: 425 },
  recoverRate: {
    kind: wholeNumber(1, 10_000),
    default: 50,
    variable: 'RECOVER_RATE',
    meaning: 'Deliveries that a recovery of one webhook resends per second',
    example: '10',
  },
  disableAfterDays: {
    kind: readAs(wholeNumber(1, 365), checkDays),
    variable: 'DISABLE_AFTER_DAYS',
    meaning: 'Days after which a webhook is disabled if every attempt failed',
    byDefault: 'never',
    example: '5',
  },
  disableOnGone: {
    kind: yesOrNo,
    default: false,
    variable: 'DISABLE_ON_GONE',
    meaning: 'Whether a webhook that responds 410 Gone is disabled',
    example: 'true',
  },
  onDisable: { check: aFunction },
  maxWebhooks: {
    kind: wholeNumber(1, 100_000),
    default: 50,
    variable: 'MAX_WEBHOOKS',
    meaning: 'Maximum number of webhooks per account',
    example: '10',
  },
  eventTypes: {
    kind: readAs(jsonObject, checkEventTypes),
    default: {},
    variable: 'EVENT_TYPES',
    meaning: 'Your own event types by name, each with the JSON schema of its data and an example',
    byDefault: 'none',
    example: 'event-types.json',
  },
  retentionDays: {
    kind: wholeNumber(1, 3_650),
    default: 30,
    variable: 'RETENTION_DAYS',
    meaning: 'Days that events and ended deliveries are kept',
    example: '90',
  },

  authenticate: { check: aFunction },
  maxApiKeys: {
    kind: wholeNumber(1, 100_000),
    default: 100,
    variable: 'MAX_API_KEYS',
    meaning: 'Maximum number of active API keys per account',
    example: '10',
  },
  managementRateLimit: {
    kind: wholeNumber(1, 1_000_000),
    default: 300,
    variable: 'MANAGEMENT_RATE_LIMIT',
    meaning:
      'Requests that change something (webhooks, API keys, resends, recoveries, test events, top-ups) that one account may make per minute, in each process',
    example: '60',
  },
  readRateLimit: {
    kind: wholeNumber(1, 1_000_000),
    default: 6_000,
    variable: 'READ_RATE_LIMIT',
    meaning: 'Read requests (GET) that one account may make per minute, in each process',
    example: '600',
  },
  limits: { check: group('limits') },
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
  processInterval: { kind: wholeNumber(100, 60_000), default: 10_000 },
  servesRequests: { kind: yesOrNo, default: true },
  logger: { check: unchecked, default: consoleLogger },
  logRequests: { kind: yesOrNo, default: false },
  tracing: { check: group('tracing', 'must be an object: { propagateToUpstreams: true }'), default: {} },
  'tracing.propagateToUpstreams': {
    kind: yesOrNo,
    default: false,
    variable: 'PROPAGATE_TRACES_TO_UPSTREAMS',
    meaning: 'Whether upstreams get the header traceparent, where an OpenTelemetry SDK is loaded (NODE_OPTIONS)',
    example: 'true',
  },
  'tracing.propagateToReceivers': {
    kind: yesOrNo,
    default: false,
    variable: 'PROPAGATE_TRACES_TO_RECEIVERS',
    meaning: 'The same for the receivers of webhooks',
    example: 'true',
  },
} as const satisfies Table;

type NamedRows = readonly (readonly [name: string, row: Row<unknown>])[];

/** The options of a group, such as `limits`, by their names in it; those of the gateway itself where there is no group. */
export function rowsIn(group?: OptionPath): NamedRows {
  const prefix = group === undefined ? '' : `${group}.`;
  return Object.entries(table)
    .filter(([path]) => path.startsWith(prefix) && !path.slice(prefix.length).includes('.'))
    .map(([path, row]) => [path.slice(prefix.length), row as Row<unknown>]);
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
