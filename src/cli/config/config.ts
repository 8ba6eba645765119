import { isIPv4 } from 'node:net';
import { GatewayError } from '../../errors.ts';
import { isObject, refuseOption } from '../../options/kinds.ts';
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
  const processes = processCount(settings, machine);
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
    /** The variables that are set. */
    set: setIn(settings),
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

/** What options are checked with where these are not theirs to say. */
const checkedElsewhere = { mongo: 'checked elsewhere', secretKeys: ['checked elsewhere'] };

/** Whether this version takes these options. */
export function areOptions(given: object): boolean {
  try {
    resolveOptions({ ...given, ...checkedElsewhere });
    return true;
  } catch {
    return false;
  }
}

type GatewayOptions = Omit<Partial<ModelGatewayOptions>, 'mongo' | 'secretKeys'>;

/** Options that OPTIONS_FILE cannot set, and what does. */
const notInFile: Readonly<Record<string, string>> = {
  mongo: 'is set by MONGODB_URI',
  secretKeys: 'is set by SECRET_KEYS',
  upstreams: 'is set by UPSTREAMS_FILE',
  proxy: 'is set by HTTPS_PROXY and HTTP_PROXY',
  allowHttp: 'is set by ALLOW_HTTP',
  allowPrivateNetworks: 'is set by ALLOW_PRIVATE_NETWORKS',
  logger: "is the server's own; LOG_LEVEL says what it writes",
  logRequests: 'is set by LOG_LEVEL',
  dashboard: 'is always there, at /dashboard',
};

const hasQuota = ({ DAILY_QUOTA, MONTHLY_QUOTA }: Settings) => (DAILY_QUOTA ?? MONTHLY_QUOTA) !== undefined;

function inOptionsFile(cause: GatewayError): GatewayError {
  return new GatewayError(cause.code, `OPTIONS_FILE: ${cause.message}`, { param: 'OPTIONS_FILE', cause });
}

/** The options that OPTIONS_FILE sets. @throws GatewayError `invalid_options`, naming the option in the file */
function optionsOfFile(settings: Settings): Branch {
  const given: Readonly<Branch> = settings.OPTIONS_FILE ?? {};
  for (const [path, problem] of Object.entries(notInFile)) {
    if (path.split('.').reduce<unknown>((at, name) => (isObject(at) ? at[name] : undefined), given) === undefined)
      continue;
    refuseOption('OPTIONS_FILE', `${path}: ${problem}`);
  }
  try {
    resolveOptions({
      ...given,
      ...checkedElsewhere,
      // variables may give what these two need
      ...(hasQuota(settings) && { quotas: { perUser: { unit: 'tokens' }, ...(given.quotas as object) } }),
      ...(settings.CREDIT_PRICES && { credits: { prices: { '*': {} }, ...(given.credits as object) } }),
    });
  } catch (cause) {
    throw cause instanceof GatewayError ? inOptionsFile(cause) : cause;
  }
  return structuredClone(given);
}

/** The options that the environment sets, by the names that the package gives them. A variable wins over OPTIONS_FILE. */
function gatewayOptions(settings: Settings): GatewayOptions {
  const options = optionsOfFile(settings);
  const { quotas, credits } = options as GatewayOptions;
  const inFile = { quotas: quotas?.perUser !== undefined, credits: credits?.prices !== undefined };
  if (hasQuota(settings) && !inFile.quotas)
    put(options, ['quotas', 'perUser', 'unit'], settingOf(settings, 'QUOTA_UNIT'));
  for (const [name, { option }] of Object.entries(variables)) {
    const value = settings[name as VariableName];
    if (option !== undefined && value !== undefined) put(options, option.split('.'), value);
  }
  if (!hasQuota(settings) && !inFile.quotas) delete options.quotas;
  if (!settings.CREDIT_PRICES && !inFile.credits) delete options.credits;
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
function processCount(settings: Settings, machine: Machine) {
  const { MONGODB_URI, METRICS_PORT = 0 } = settings;
  const wanted = settingOf(settings, 'WORKERS');
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
  const { perKey, perUser, shared } = gatewayOptions(settings).limits ?? {};
  if (workers === 1 || shared) return [];
  const isInFile = (perKey ?? perUser) !== undefined && limits.every((name) => settings[name] === undefined);
  const alone = `in each of ${workers} processes alone; SHARED_LIMITS=true makes`;
  if (isInFile) return [`The limits of calls in OPTIONS_FILE count ${alone} them one count of all`];
  return limits
    .filter((name) => settings[name] !== undefined)
    .map((name) => `${name} counts ${alone} it one count of all`);
}

const oneProcess = 'the embedded database serves one process';

function checkProcesses({ WORKERS = 1, MONGODB_URI, METRICS_PORT, METRICS_HOST }: Settings): void {
  if (typeof WORKERS === 'number' && WORKERS > 1 && !MONGODB_URI)
    refuseOption('WORKERS', `needs MONGODB_URI: ${oneProcess}`);
  if (METRICS_HOST !== undefined && METRICS_PORT === undefined)
    refuseOption('METRICS_HOST', 'is set without METRICS_PORT, so nothing would use it; set both');
}

type Need = readonly [VariableName, readonly VariableName[], inFile: (options: GatewayOptions) => unknown];

const quotasIn = ({ quotas }: GatewayOptions) => quotas?.perUser;
const creditsIn = ({ credits }: GatewayOptions) => credits?.prices;

/** Each variable here is of no use without one of those behind it, or this in OPTIONS_FILE. */
const needs: readonly Need[] = [
  ['QUOTA_UNIT', ['DAILY_QUOTA', 'MONTHLY_QUOTA'], quotasIn],
  ['QUOTA_ENFORCE', ['DAILY_QUOTA', 'MONTHLY_QUOTA'], quotasIn],
  ['INITIAL_CREDITS', ['CREDIT_PRICES'], creditsIn],
  ['CREDIT_LOW_THRESHOLD', ['CREDIT_PRICES'], creditsIn],
  ['CREDIT_OVERDRAFT', ['CREDIT_PRICES'], creditsIn],
  ['SHARED_LIMITS', limits, (options) => options.limits?.perKey ?? options.limits?.perUser],
];

function checkAccountSettings(settings: Settings): void {
  const inFile = (settings.OPTIONS_FILE ?? {}) as GatewayOptions;
  for (const [name, others, isIn] of needs) {
    if (settings[name] === undefined || isIn(inFile) !== undefined) continue;
    if (others.some((other) => settings[other] !== undefined)) continue;
    refuseOption(name, `is set without ${others.join(' or ')}, so nothing would use it`);
  }
  if (settings.QUOTA_UNIT === 'credits' && !settings.CREDIT_PRICES && inFile.credits === undefined) {
    refuseOption('QUOTA_UNIT', 'is credits without CREDIT_PRICES; set those, or count tokens or requests');
  }
}

/** Holds the options against the package's own rules, such as those for JSON in a variable or for two options together. */
function checkOptions(settings: Settings): void {
  try {
    resolveOptions({ ...gatewayOptions(settings), ...checkedElsewhere });
  } catch (error) {
    throw namingVariable(error, setIn(settings));
  }
}

/** What only the package finds wrong, by the names of its options. */
const foundByThePackage: readonly VariableName[] = ['CREDIT_PRICES', 'CREDIT_OVERDRAFT', 'BODY_MEMORY', 'EVENT_TYPES'];

const setIn = (settings: Settings) => Object.keys(settings) as VariableName[];

/**
 * The same error with the names of the environment variables: `CREDIT_PRICES['gpt-5'].inputs: is not an option …`.
 * @param set the variables that are set: what its own does not set is in OPTIONS_FILE
 */
export function namingVariable(error: unknown, set: readonly VariableName[]): unknown {
  if (!(error instanceof GatewayError)) return error;
  for (const name of foundByThePackage) {
    const { option } = variables[name];
    if (option === undefined || !error.message.startsWith(option)) continue;
    if (!set.includes(name) && set.includes('OPTIONS_FILE')) return inOptionsFile(error);
    return new GatewayError(error.code, name + error.message.slice(option.length), { param: name, cause: error });
  }
  // which no variable sets
  return error.message.startsWith('endpoints[') ? inOptionsFile(error) : error;
}
