import { GatewayError } from '../errors.ts';
import type { ModelGatewayOptions, UpstreamOptions } from '../options.ts';
import { accountOptions, checkAccountSettings } from './account-options.ts';
import { stated } from './stated.ts';
import type { Variable } from './variable.ts';
import { type Settings, type VariableName, variables } from './variables.ts';

/** What the environment says about the stand-alone gateway. */
export interface Configuration {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  /** Absent: the embedded database. */
  readonly mongodbUri?: string;
  /** Absent: the key in `dataDir`. */
  readonly secretKeys?: readonly string[];
  /** Absent: the demo upstream. */
  readonly upstream?: UpstreamOptions;
  readonly allowHttp: boolean;
  readonly allowPrivateNetworks: readonly string[];
  /** The options that the environment sets; the others keep the package's defaults. */
  readonly options: Pick<
    ModelGatewayOptions,
    | 'retryDelays'
    | 'attemptTimeout'
    | 'concurrency'
    | 'concurrencyPerWebhook'
    | 'changeStreams'
    | 'recoverRate'
    | 'disableAfterDays'
    | 'disableOnGone'
    | 'maxWebhooks'
    | 'managementRateLimit'
    | 'retentionDays'
    | 'collectionPrefix'
    | 'maxApiKeys'
    | 'limits'
    | 'quotas'
    | 'credits'
    | 'eventTypes'
  >;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** How to make what SECRET_KEYS takes. */
const howToMakeASecretKey = 'make one with: echo "k1:$(openssl rand -base64 32)"';

function refuse(param: VariableName, message: string): never {
  throw new GatewayError('invalid_options', `${param}: ${message}`, { param });
}

function readVariable(name: VariableName, text: string): unknown {
  const { reader, secret } = variables[name] as Variable<unknown>;
  const value = reader.read(text);
  if (value === undefined) refuse(name, `must be ${reader.allowed}${secret ? '' : `, not '${text}'`}`);
  return value;
}

/** A variable that is set to nothing counts as not set. */
function readSettings(env: Environment): Settings {
  const names = (Object.keys(variables) as VariableName[]).filter((name) => env[name]);
  return Object.fromEntries(names.map((name) => [name, readVariable(name, env[name] as string)]));
}

function upstreamOf(settings: Settings): UpstreamOptions | undefined {
  const { UPSTREAM_BASE_URL: baseUrl, UPSTREAM_API_KEY: apiKey, UPSTREAM_NAME: name } = settings;
  if (baseUrl) return { name: name ?? 'upstream', baseUrl, ...(apiKey && { apiKey }) };
  if (apiKey) refuse('UPSTREAM_API_KEY', 'is set without UPSTREAM_BASE_URL, so nothing would use it; set both');
  return undefined;
}

function checkSecretKeys({ MONGODB_URI, SECRET_KEYS }: Settings): void {
  if (SECRET_KEYS?.length === 0) refuse('SECRET_KEYS', `must be at least one key; ${howToMakeASecretKey}`);
  const ids = SECRET_KEYS?.map((key) => key.split(':')[0]) ?? [];
  if (new Set(ids).size < ids.length) refuse('SECRET_KEYS', 'every key needs an id of its own');
  if (!MONGODB_URI || SECRET_KEYS) return;
  refuse('SECRET_KEYS', `is required with MONGODB_URI, the same in every process; ${howToMakeASecretKey}`);
}

/**
 * Which database and which options: all that a command beside the gateway needs.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readPlace(env: Environment): Pick<Configuration, 'dataDir' | 'mongodbUri' | 'secretKeys' | 'options'> {
  const settings = readSettings(env);
  return {
    dataDir: settings.DATA_DIR ?? '.data',
    ...stated({ mongodbUri: settings.MONGODB_URI, secretKeys: settings.SECRET_KEYS }),
    options: stated({
      retryDelays: settings.RETRY_DELAYS,
      attemptTimeout: settings.ATTEMPT_TIMEOUT,
      concurrency: settings.CONCURRENCY,
      concurrencyPerWebhook: settings.CONCURRENCY_PER_WEBHOOK,
      changeStreams: settings.CHANGE_STREAMS,
      recoverRate: settings.RECOVER_RATE,
      disableAfterDays: settings.DISABLE_AFTER_DAYS,
      disableOnGone: settings.DISABLE_ON_GONE,
      maxWebhooks: settings.MAX_WEBHOOKS,
      managementRateLimit: settings.MANAGEMENT_RATE_LIMIT,
      retentionDays: settings.RETENTION_DAYS,
      collectionPrefix: settings.COLLECTION_PREFIX,
      ...accountOptions(settings),
    }),
  };
}

/**
 * Reads the whole configuration.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readConfiguration(env: Environment): Configuration {
  const settings = readSettings(env);
  checkSecretKeys(settings);
  checkAccountSettings(settings);
  const production = env.NODE_ENV === 'production';
  return {
    ...readPlace(env),
    host: settings.HOST ?? '127.0.0.1',
    port: settings.PORT ?? 3000,
    ...stated({ upstream: upstreamOf(settings) }),
    allowHttp: settings.ALLOW_HTTP ?? !production,
    allowPrivateNetworks: settings.ALLOW_PRIVATE_NETWORKS ?? (production ? [] : ['127.0.0.0/8', '::1/128']),
  };
}
