import { refuse } from '../../options/checks.ts';
import { resolveOptions, type UpstreamOptions } from '../../options/options.ts';
import { accountOptions, checkAccountSettings, namingVariable } from './account-options.ts';
import { environmentSchema, misspelled, type Settings, type VariableName, variables } from './environment.ts';
import { omitUndefined } from './omit-undefined.ts';
import { allowedBy } from './parsers.ts';
import { readUpstreamsFile } from './upstreams-file.ts';
import { isLoopback, type WebhookRules, webhookRules } from './webhook-rules.ts';

/** What the environment says about the stand-alone gateway. */
export interface Configuration extends WebhookRules {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  /** Absent: the embedded database. */
  readonly mongodbUri?: string;
  /** Absent: the key in `dataDir`. */
  readonly secretKeys?: readonly string[];
  /** Absent: the demo upstream. */
  readonly upstreams?: readonly UpstreamOptions[];
  /** Milliseconds. Absent: no HSTS. */
  readonly hstsMaxAge?: number;
  /** Whether NODE_ENV says that this is production. */
  readonly production: boolean;
  /** The least level that is logged. */
  readonly logLevel: 'error' | 'warn' | 'info' | 'silent';
  /** What this process does. */
  readonly role: 'all' | 'api' | 'worker';
  /** How many processes serve. */
  readonly workers: number;
  /** Where the metrics are served; each further process takes the next port. Absent: nowhere. */
  readonly metrics?: { readonly host: string; readonly port: number };
  /** What is probably a mistake and works nevertheless, in sentences for the operator. */
  readonly warnings: readonly string[];
  /** The options that the environment sets; the others keep the package's defaults. */
  readonly options: ReturnType<typeof gatewayOptions>;
}

/** What a command needs that uses the database of a gateway instead of its API. */
export type DatabaseSettings = Pick<Configuration, 'dataDir' | 'mongodbUri' | 'secretKeys' | 'options'>;

export type Environment = Readonly<Record<string, string | undefined>>;

/** How to make what SECRET_KEYS takes. */
const howToMakeASecretKey = 'make one with: echo "k1:$(openssl rand -base64 32)"';

/** A variable that is set to nothing counts as not set. */
function readSettings(env: Environment): Settings {
  const names = (Object.keys(variables) as VariableName[]).filter((name) => env[name]);
  const { data, error } = environmentSchema.safeParse(Object.fromEntries(names.map((name) => [name, env[name]])));
  if (data) return data;
  const name = error.issues[0]?.path[0] as VariableName;
  const { type, secret } = variables[name];
  return refuse(name, `must be ${allowedBy(type)}${secret ? '' : `, not '${env[name]}'`}`);
}

/** The variables that describe one upstream; a file describes several. */
const ofOneUpstream = [
  'UPSTREAM_BASE_URL',
  'UPSTREAM_API_KEY',
  'UPSTREAM_NAME',
  'UPSTREAM_MASK_ERRORS',
  'UPSTREAM_MAX_CONCURRENCY',
] as const;

function upstreamsOf(settings: Settings, env: Environment): readonly UpstreamOptions[] | undefined {
  const { UPSTREAM_BASE_URL: baseUrl, UPSTREAM_API_KEY: apiKey, UPSTREAM_NAME: name = 'upstream' } = settings;
  if (settings.UPSTREAMS_FILE) {
    const other = ofOneUpstream.find((variable) => settings[variable] !== undefined);
    if (other) refuse('UPSTREAMS_FILE', `is set together with ${other}; put that upstream into the file`);
    return readUpstreamsFile(settings.UPSTREAMS_FILE, env);
  }
  const { UPSTREAM_MASK_ERRORS: maskErrors, UPSTREAM_MAX_CONCURRENCY: maxConcurrency } = settings;
  if (baseUrl) return [{ name, baseUrl, ...omitUndefined({ apiKey, maskErrors, maxConcurrency }) }];
  if (apiKey) refuse('UPSTREAM_API_KEY', 'is set without UPSTREAM_BASE_URL, so nothing would use it; set both');
  return undefined;
}

function pathlessUpstreams(upstreams: readonly UpstreamOptions[] = []): string[] {
  return upstreams
    .map(({ name, baseUrl }) => ({ name, url: new URL(baseUrl) }))
    .filter(({ url }) => url.pathname === '/')
    .map(
      ({ name, url }) =>
        `${url.origin} of the upstream '${name}' has no path; the APIs of most providers are under /v1`,
    );
}

function checkSecretKeys({ MONGODB_URI, SECRET_KEYS }: Settings): void {
  if (SECRET_KEYS?.length === 0) refuse('SECRET_KEYS', `must be at least one key; ${howToMakeASecretKey}`);
  const ids = SECRET_KEYS?.map((key) => key.split(':')[0]) ?? [];
  if (new Set(ids).size < ids.length) refuse('SECRET_KEYS', 'every key needs an id of its own');
  if (!MONGODB_URI || SECRET_KEYS) return;
  refuse('SECRET_KEYS', `is required with MONGODB_URI, the same in every process; ${howToMakeASecretKey}`);
}

function tracingOf(settings: Settings) {
  const tracing = omitUndefined({
    propagateToUpstreams: settings.PROPAGATE_TRACES_TO_UPSTREAMS,
    propagateToReceivers: settings.PROPAGATE_TRACES_TO_RECEIVERS,
  });
  return Object.keys(tracing).length > 0 ? tracing : undefined;
}

function checkWorkers({ WORKERS = 1, MONGODB_URI, METRICS_PORT = 0 }: Settings): void {
  if (WORKERS > 1 && !MONGODB_URI) refuse('WORKERS', 'needs MONGODB_URI: the embedded database serves one process');
  if (METRICS_PORT + WORKERS > 65_536) refuse('METRICS_PORT', `must leave ${WORKERS} ports, one for each of WORKERS`);
}

/** The options that the environment sets, by the names that the package gives them. */
function gatewayOptions(settings: Settings) {
  return omitUndefined({
    abortOnDisconnect: settings.ABORT_ON_DISCONNECT,
    retryDelays: settings.RETRY_DELAYS,
    attemptTimeout: settings.ATTEMPT_TIMEOUT,
    concurrency: settings.CONCURRENCY,
    concurrencyPerAccount: settings.CONCURRENCY_PER_ACCOUNT,
    concurrencyPerWebhook: settings.CONCURRENCY_PER_WEBHOOK,
    changeStreams: settings.CHANGE_STREAMS,
    drainTimeout: settings.DRAIN_TIMEOUT,
    recoverRate: settings.RECOVER_RATE,
    disableAfterDays: settings.DISABLE_AFTER_DAYS,
    disableOnGone: settings.DISABLE_ON_GONE,
    maxWebhooks: settings.MAX_WEBHOOKS,
    managementRateLimit: settings.MANAGEMENT_RATE_LIMIT,
    readRateLimit: settings.READ_RATE_LIMIT,
    retentionDays: settings.RETENTION_DAYS,
    storedRetentionDays: settings.STORED_RETENTION_DAYS,
    backgroundPollInterval: settings.BACKGROUND_POLL_INTERVAL,
    backgroundPollLimit: settings.BACKGROUND_POLL_LIMIT,
    backgroundTimeout: settings.BACKGROUND_TIMEOUT,
    serveOpenApi: settings.SERVE_OPENAPI,
    collectionPrefix: settings.COLLECTION_PREFIX,
    indexes: settings.INDEXES,
    keyGracePeriod: settings.KEY_GRACE_PERIOD,
    usageBacklog: settings.USAGE_BACKLOG,
    bodyMemory: settings.BODY_MEMORY,
    tracing: tracingOf(settings),
    ...accountOptions(settings),
  });
}

/**
 * Holds the options against the package's own rules, such as those for JSON in a variable or for two options together.
 * @throws GatewayError `invalid_options`; `param` is the variable
 */
function checkOptions(settings: Settings): void {
  try {
    resolveOptions({ ...gatewayOptions(settings), mongo: 'checked elsewhere', secretKeys: ['checked elsewhere'] });
  } catch (error) {
    throw namingVariable(error);
  }
}

function databaseSettings(settings: Settings): DatabaseSettings {
  return {
    dataDir: settings.DATA_DIR ?? '.data',
    ...omitUndefined({ mongodbUri: settings.MONGODB_URI, secretKeys: settings.SECRET_KEYS }),
    options: gatewayOptions(settings),
  };
}

/**
 * Reads how the database of a gateway is reached.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readDatabaseSettings(env: Environment): DatabaseSettings {
  return databaseSettings(readSettings(env));
}

/** What the command `doctor` checks, beside the database. */
export type DoctorSettings = DatabaseSettings &
  Pick<Configuration, 'upstreams' | 'allowHttp' | 'allowPrivateNetworks'> & {
    /** Whether nobody else can reach the gateway, as on a developer's machine. */
    readonly isOnTrial: boolean;
  };

/**
 * Reads what there is to check. Nothing is required.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readDoctorSettings(env: Environment): DoctorSettings {
  const settings = readSettings(env);
  const host = settings.HOST ?? '127.0.0.1';
  const isProduction = env.NODE_ENV === 'production';
  return {
    ...databaseSettings(settings),
    ...omitUndefined({ upstreams: upstreamsOf(settings, env) }),
    ...webhookRules(settings, host, isProduction),
    isOnTrial: isLoopback(host) && !isProduction,
  };
}

/**
 * Reads the whole configuration.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readConfiguration(env: Environment): Configuration {
  const settings = readSettings(env);
  checkSecretKeys(settings);
  checkWorkers(settings);
  checkAccountSettings(settings);
  checkOptions(settings);
  const host = settings.HOST ?? '127.0.0.1';
  const production = env.NODE_ENV === 'production';
  const upstreams = upstreamsOf(settings, env);
  if (settings.METRICS_HOST !== undefined && settings.METRICS_PORT === undefined)
    refuse('METRICS_HOST', 'is set without METRICS_PORT, so nothing would use it; set both');
  const { METRICS_PORT: metricsPort, METRICS_HOST: metricsHost = '127.0.0.1' } = settings;
  return {
    ...databaseSettings(settings),
    host,
    port: settings.PORT ?? 3000,
    ...omitUndefined({ upstreams, hstsMaxAge: settings.HSTS_MAX_AGE }),
    production,
    logLevel: settings.LOG_LEVEL ?? 'info',
    role: settings.ROLE ?? 'all',
    workers: settings.WORKERS ?? 1,
    ...(metricsPort !== undefined && { metrics: { host: metricsHost, port: metricsPort } }),
    ...webhookRules(settings, host, production),
    warnings: [...misspelled(env), ...pathlessUpstreams(upstreams)],
  };
}
