import { isIPv4 } from 'node:net';
import { GatewayError } from '../../errors.ts';
import { refuseOption } from '../../options/kinds.ts';
import type { ModelGatewayOptions } from '../../options/options.ts';
import { resolveOptions } from '../../options/resolve.ts';
import { type Environment, misspelled, omitUndefined, readSettings, settingOf } from './environment.ts';
import { type Machine, processesFor, readMachine } from './machine.ts';
import { ignoredExceptions, pathlessUpstreams, upstreamsOf } from './upstreams.ts';
import { type Settings, type VariableName, variables } from './variables.ts';

/** What the environment says about the stand-alone gateway. */
export type Configuration = ReturnType<typeof configurationOf>;

/** What a command needs that uses the database of a gateway instead of its API. */
export type DatabaseSettings = ReturnType<typeof databaseSettings>;

/**
 * Reads the whole configuration.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readConfiguration(env: Environment, machine = readMachine()): Configuration {
  const settings = readCheckedSettings(env);
  requireSecretKeys(settings);
  return configurationOf(settings, env, machine);
}

/**
 * Reads what the command `doctor` checks. Nothing is required, and what is set must be right.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readDoctorSettings(env: Environment): Configuration {
  return configurationOf(readCheckedSettings(env), env, readMachine());
}

function configurationOf(settings: Settings, env: Environment, machine: Machine) {
  const host = settingOf(settings, 'HOST');
  /** Whether NODE_ENV says that this is production. */
  const production = env.NODE_ENV === 'production';
  const upstreams = upstreamsOf(settings, env);
  const { METRICS_PORT: metricsPort } = settings;
  const processes = processCount(settings, production, machine);
  return {
    ...databaseSettings(settings),
    host,
    port: settingOf(settings, 'PORT'),
    ...omitUndefined({
      /** Absent: the demo upstream. */
      upstreams,
      /** Milliseconds. Absent: no HSTS. */
      hstsMaxAge: settings.HSTS_MAX_AGE,
      /** Absent: nobody's. */
      corsOrigins: settings.CORS_ORIGINS,
      /** Absent: the metrics are not served. */
      metrics: metricsPort === undefined ? undefined : { host: settingOf(settings, 'METRICS_HOST'), port: metricsPort },
    }),
    production,
    logLevel: settingOf(settings, 'LOG_LEVEL'),
    role: settingOf(settings, 'ROLE'),
    ...processes,
    /** Milliseconds. */
    shutdownDelay: settingOf(settings, 'SHUTDOWN_DELAY'),
    ...webhookRules(settings, host, production),
    /** What is probably a mistake and works nevertheless, in sentences for the operator. */
    warnings: [
      ...misspelled(env),
      ...pathlessUpstreams(upstreams),
      ...separateLimits(settings, processes.workers),
      ...ignoredExceptions(settings),
    ],
  };
}

/**
 * Reads how the database of a gateway is reached.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readDatabaseSettings(env: Environment): DatabaseSettings {
  return databaseSettings(readSettings(env));
}

function databaseSettings(settings: Settings) {
  return {
    dataDir: settingOf(settings, 'DATA_DIR'),
    /** Absent: the embedded database, and the keys in `dataDir`. */
    ...omitUndefined({ mongodbUri: settings.MONGODB_URI, secretKeys: settings.SECRET_KEYS }),
    options: gatewayOptions(settings),
  };
}

type GatewayOptions = Omit<Partial<ModelGatewayOptions>, 'mongo' | 'secretKeys'>;

/** The options that the environment sets, by the names that the package gives them. */
function gatewayOptions(settings: Settings): GatewayOptions {
  const options: Branch = {};
  for (const [name, { option }] of Object.entries(variables)) {
    const value = settings[name as VariableName];
    if (option !== undefined && value !== undefined) put(options, option.split('.'), value);
  }
  const hasQuota = settings.DAILY_QUOTA !== undefined || settings.MONTHLY_QUOTA !== undefined;
  if (hasQuota) put(options, ['quotas', 'perUser', 'unit'], settingOf(settings, 'QUOTA_UNIT'));
  else delete options.quotas;
  if (!settings.CREDIT_PRICES) delete options.credits;
  return options as GatewayOptions;
}

type Branch = Record<string, unknown>;

function put(branch: Branch, [name = '', ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) {
    branch[name] = value;
    return;
  }
  branch[name] ??= {};
  put(branch[name] as Branch, rest, value);
}

/** Trials on one machine need receivers on loopback; a gateway that others can reach must not give them access to it. */
function webhookRules({ ALLOW_HTTP, ALLOW_PRIVATE_NETWORKS }: Settings, host: string, production: boolean) {
  const isOnTrial = isLoopback(host) && !production;
  const byDefault = isLoopback(host)
    ? `NODE_ENV is ${production ? '' : 'not '}production`
    : `HOST ${host} is not loopback`;
  return {
    allowHttp: ALLOW_HTTP ?? isOnTrial,
    allowPrivateNetworks: ALLOW_PRIVATE_NETWORKS ?? (isOnTrial ? ['127.0.0.0/8', '::1/128'] : []),
    /** Why the two have these values, for the operator. */
    allowedBecause: [
      ...(ALLOW_HTTP === undefined ? [] : ['ALLOW_HTTP is set']),
      ...(ALLOW_PRIVATE_NETWORKS === undefined ? [] : ['ALLOW_PRIVATE_NETWORKS is set']),
      ...(isOnTrial ? ['HOST is loopback'] : []),
      byDefault,
    ].join(', '),
    /** Whether only this machine can reach the gateway, as on a developer's machine. */
    isOnTrial,
  };
}

/** Whether only this machine can reach what listens there; `false` if that is not certain. */
function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}

/** Reads what is set, which must be right and belong together, whatever is not set. */
function readCheckedSettings(env: Environment): Settings {
  const settings = readSettings(env);
  checkKeyIds(settings);
  checkProcesses(settings);
  checkAccountSettings(settings);
  checkOptions(settings);
  return settings;
}

const howToMakeASecretKey = 'make one with: echo "k1:$(openssl rand -base64 32)"';

function checkKeyIds({ SECRET_KEYS }: Settings): void {
  if (SECRET_KEYS?.length === 0) refuseOption('SECRET_KEYS', `must be at least one key; ${howToMakeASecretKey}`);
  const ids = SECRET_KEYS?.map((key) => key.split(':')[0]) ?? [];
  if (new Set(ids).size < ids.length) refuseOption('SECRET_KEYS', 'every key needs an id of its own');
}

/** What `start` needs. `doctor` tells without. */
function requireSecretKeys({ MONGODB_URI, SECRET_KEYS }: Settings): void {
  if (!MONGODB_URI || SECRET_KEYS) return;
  refuseOption('SECRET_KEYS', `is required with MONGODB_URI, the same in every process; ${howToMakeASecretKey}`);
}

/**
 * How many processes serve.
 * @throws GatewayError `invalid_options` where they find no ports for their metrics
 */
function processCount({ WORKERS, MONGODB_URI, METRICS_PORT = 0 }: Settings, production: boolean, machine: Machine) {
  const wanted = WORKERS ?? (production && MONGODB_URI ? 'auto' : 1);
  const oneOnly = { count: 1, reason: oneProcess };
  const { count, reason } = wanted === 'auto' ? (MONGODB_URI ? processesFor(machine) : oneOnly) : { count: wanted };
  if (METRICS_PORT + count > 65_536) refuseOption('METRICS_PORT', `must leave ${count} ports, one for each of WORKERS`);
  return { workers: count, ...(reason !== undefined && { workersBecause: `WORKERS=auto: ${reason}` }) };
}

/** How many processes serve, why so many, and the ports of their metrics: `4 (WORKERS=auto: 4 cores)`. */
export function describeProcesses({ workers, workersBecause, metrics }: Configuration): string {
  const because = workersBecause === undefined ? '' : ` (${workersBecause})`;
  const ports =
    metrics?.port && workers > 1 ? `; metrics on ports ${metrics.port} to ${metrics.port + workers - 1}` : '';
  return `${workers}${because}${ports}`;
}

/** The limits of calls, which each process counts for itself unless SHARED_LIMITS says otherwise. */
const limits = [
  'KEY_REQUESTS_PER_MINUTE',
  'KEY_TOKENS_PER_MINUTE',
  'USER_REQUESTS_PER_MINUTE',
  'USER_TOKENS_PER_MINUTE',
] as const;

function separateLimits(settings: Settings, workers: number): string[] {
  if (workers === 1 || settings.SHARED_LIMITS) return [];
  return limits
    .filter((name) => settings[name] !== undefined)
    .map(
      (name) => `${name} counts in each of ${workers} processes alone; SHARED_LIMITS=true makes it one count of all`,
    );
}

const oneProcess = 'the embedded database serves one process';

function checkProcesses({ WORKERS = 1, MONGODB_URI, METRICS_PORT, METRICS_HOST }: Settings): void {
  if (typeof WORKERS === 'number' && WORKERS > 1 && !MONGODB_URI)
    refuseOption('WORKERS', `needs MONGODB_URI: ${oneProcess}`);
  if (METRICS_HOST !== undefined && METRICS_PORT === undefined)
    refuseOption('METRICS_HOST', 'is set without METRICS_PORT, so nothing would use it; set both');
}

/** Each variable here is of no use without one of those behind it. */
const needs: readonly (readonly [VariableName, readonly VariableName[]])[] = [
  ['QUOTA_UNIT', ['DAILY_QUOTA', 'MONTHLY_QUOTA']],
  ['QUOTA_THRESHOLDS', ['DAILY_QUOTA', 'MONTHLY_QUOTA']],
  ['QUOTA_ENFORCE', ['DAILY_QUOTA', 'MONTHLY_QUOTA']],
  ['STORED_PRICES', ['CREDIT_PRICES']],
  ['INITIAL_CREDITS', ['CREDIT_PRICES']],
  ['CREDIT_LOW_THRESHOLD', ['CREDIT_PRICES']],
  ['CREDIT_OVERDRAFT', ['CREDIT_PRICES']],
  ['SHARED_LIMITS', limits],
];

function checkAccountSettings(settings: Settings): void {
  for (const [name, others] of needs) {
    if (settings[name] === undefined || others.some((other) => settings[other] !== undefined)) continue;
    refuseOption(name, `is set without ${others.join(' or ')}, so nothing would use it`);
  }
  if (settings.QUOTA_UNIT === 'credits' && !settings.CREDIT_PRICES) {
    refuseOption('QUOTA_UNIT', 'is credits without CREDIT_PRICES; set those, or count tokens or requests');
  }
}

/** Holds the options against the package's own rules, such as those for JSON in a variable or for two options together. */
function checkOptions(settings: Settings): void {
  try {
    resolveOptions({ ...gatewayOptions(settings), mongo: 'checked elsewhere', secretKeys: ['checked elsewhere'] });
  } catch (error) {
    throw namingVariable(error);
  }
}

/** What only the package finds wrong, by the names of its options. */
const foundByThePackage: readonly VariableName[] = [
  'CREDIT_PRICES',
  'STORED_PRICES',
  'CREDIT_OVERDRAFT',
  'EVENT_TYPES',
  'BACKGROUND_POLL_LIMIT',
];

/** The same error with the names of the environment variables: `CREDIT_PRICES['gpt-5'].inputs: is not an option …`. */
export function namingVariable(error: unknown): unknown {
  if (!(error instanceof GatewayError)) return error;
  for (const name of foundByThePackage) {
    const { option } = variables[name];
    if (option === undefined || !error.message.startsWith(option)) continue;
    return new GatewayError(error.code, name + error.message.slice(option.length), { param: name, cause: error });
  }
  return error;
}
