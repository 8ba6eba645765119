import { BlockList, isIP } from 'node:net';
import {
  duration,
  jsonObject,
  listOf,
  matching,
  oneOf,
  proxyUrl,
  type Reader,
  wholeNumber,
  yesOrNo,
} from '../../options/kinds.ts';
import { constants } from '../../options/renamed.ts';
import { type OptionPath, table } from '../../options/table.ts';
import { maxProcesses } from './machine.ts';

/** One environment variable. Its errors, `--help` and docs/variables.md come from this. */
export interface Variable<T = unknown> {
  /** A sentence without its full stop. */
  readonly meaning: string;
  readonly type: Reader<T>;
  /** In words; a text that `type` reads, where `settingOf` uses it. */
  readonly default: string;
  readonly example: string;
  /** Whether errors must not repeat the value. */
  readonly secret?: true;
  /** Whether its name in lower case is read too, and first, as other programs do. */
  readonly lowerCase?: true;
  /** The option that it sets. @default none: it is about the stand-alone server */
  readonly option?: OptionPath;
}

type Row<Path extends OptionPath> = (typeof table)[Path];
type NameOf<Path extends OptionPath> = Row<Path> extends { variable: infer Name extends string } ? Name : never;
type ValueOf<Path extends OptionPath> = Row<Path> extends { kind: Reader<infer T> } ? T : never;

/** What a row of the table of options says where there is a variable. */
interface OptionRow extends Pick<Variable, 'meaning' | 'example' | 'secret'> {
  readonly kind: Reader;
  readonly default?: unknown;
  readonly variable: string;
  readonly byDefault?: string;
}

/** The variables of options, as the table of options describes them. */
function ofOptions<Path extends OptionPath>(
  ...paths: readonly Path[]
): { readonly [P in Path as NameOf<P>]: Variable<ValueOf<P>> } {
  const described = paths.map((option) => {
    const { variable, kind, byDefault, meaning, example, secret, ...row } = table[option] as unknown as OptionRow;
    const byDefaultInWords = byDefault ?? kind.show(row.default);
    return [variable, { meaning, type: kind, default: byDefaultInWords, example, option, ...(secret && { secret }) }];
  });
  return Object.fromEntries(described);
}

const optionsWithVariable = (Object.keys(table) as OptionPath[]).filter((path) => 'variable' in table[path]);

const hour = 3_600_000;

const secretKey = matching(/^[A-Za-z0-9_-]{1,32}:[A-Za-z0-9+/_-]{43}=?$/, '<id>:<32 bytes in base64>');

/** A text for which this is so. */
function textThat(allowed: string, isValid: (text: string) => boolean): Reader<string> {
  return { allowed, read: (text) => (isValid(text) ? text : undefined), show: String };
}

const httpUrl = textThat(
  'an http or https URL, /v1 included, such as https://api.openai.com/v1',
  (text) => /^https?:\/\//i.test(text) && URL.canParse(text),
);

/** An origin as browsers send it; those of apps and extensions have schemes of their own (RFC 6454, section 6.1). `*` is every one. */
const origin = textThat(
  'origins without a path or a slash at the end, such as https://app.example.com,http://localhost:5173, or * for every origin',
  (text) => {
    if (text === '*' || !URL.canParse(text)) return text === '*';
    const { protocol, host } = new URL(text);
    return host !== '' && !host.includes('*') && text === `${protocol}//${host}`;
  },
);
const severalOrigins = listOf(origin, 100, origin.allowed);
const origins: Reader<readonly string[]> = {
  ...severalOrigins,
  read(text) {
    const items = severalOrigins.read(text);
    return items && (items.length === 1 || !items.includes('*')) ? items : undefined;
  },
};

const network = textThat('a network such as 10.0.0.0/8', (text) => {
  const [address = '', bits = '', ...others] = text.split('/');
  const version = isIP(address);
  if (version === 0 || !/^\d{1,3}$/.test(bits) || others.length > 0) return false;
  try {
    new BlockList().addSubnet(address, Number(bits), version === 4 ? 'ipv4' : 'ipv6');
    return true;
  } catch {
    return false;
  }
});

const processes = wholeNumber(1, maxProcesses);
/** A number of processes, or as many as the machine has cores. */
const workers: Reader<number | 'auto'> = {
  allowed: `auto, or ${processes.allowed}`,
  read: (text) => (text === 'auto' ? text : processes.read(text)),
  show: String,
};

const rows = {
  PORT: {
    meaning: 'Port to listen on; 0 picks a free one',
    type: wholeNumber(0, 65_535),
    default: '3000',
    example: '8080',
  },
  HOST: {
    meaning: 'Address to listen on; loopback by default, 0.0.0.0 for every interface',
    type: matching(/^[A-Za-z0-9.:_-]+$/, 'a host name or an address'),
    default: '127.0.0.1',
    example: '0.0.0.0',
  },
  ROLE: {
    meaning:
      'What this process does: api serves requests; worker makes delivery attempts, counts usage and polls; all does both',
    type: oneOf('all', 'api', 'worker'),
    default: 'all',
    example: 'api',
  },
  LOG_LEVEL: {
    meaning:
      'The least level that is logged, on stderr: error, warn, info (a line for each request and delivery attempt), or silent',
    type: oneOf('error', 'warn', 'info', 'silent'),
    default: 'info',
    example: 'warn',
  },
  WORKERS: {
    meaning:
      'How many processes serve PORT together, each with ROLE; one that ends is started again. auto is one for each core that this process may use and 256 MiB of memory. More than 1 needs MONGODB_URI',
    type: workers,
    default: '1',
    example: '4',
  },
  METRICS_PORT: {
    meaning:
      'Port that serves /metrics for Prometheus, /healthz and /readyz; 0 picks a free one. Each further process of WORKERS takes the next port',
    type: wholeNumber(0, 65_535),
    default: 'metrics are not served',
    example: '9464',
  },
  METRICS_HOST: {
    meaning: 'Address of METRICS_PORT; it shows the metrics without a key',
    type: matching(/^[A-Za-z0-9.:_-]+$/, 'a host name or an address'),
    default: '127.0.0.1',
    example: '0.0.0.0',
  },
  SHUTDOWN_DELAY: {
    meaning:
      'How long requests are still served after SIGTERM, while /readyz is already 503: longer than a load balancer takes to notice',
    type: duration(0, hour),
    default: '0s',
    example: '15s',
  },
  ...ofOptions('drainTimeout'),
  HSTS_MAX_AGE: {
    meaning: 'How long browsers use only TLS for this host (Strict-Transport-Security); set it when TLS is in front',
    type: duration(0, 2 * 365 * 24 * hour),
    default: 'the header is not sent',
    example: '365d',
  },
  CORS_ORIGINS: {
    meaning:
      'Origins whose pages may call /v1 from a browser, separated by commas; each call still needs a key, and cookies are never used',
    type: origins,
    default: 'none: browsers keep other origins from calling',
    example: 'https://app.example.com,http://localhost:5173',
  },
  ...ofOptions('serveOpenApi'),
  DATA_DIR: {
    meaning: 'Folder for the embedded database and the secret key',
    type: matching(/^[^\0]+$/, 'a path'),
    default: '.data',
    example: '/var/lib/gateway',
  },
  MONGODB_URI: {
    meaning: 'A MongoDB replica set to use instead of the embedded database',
    type: matching(/^mongodb(\+srv)?:\/\/\S+$/, 'a mongodb:// or mongodb+srv:// URI'),
    default: 'the embedded database',
    example: 'mongodb://db1,db2,db3/gateway?replicaSet=rs0',
    secret: true,
  },
  SECRET_KEYS: {
    meaning:
      'Keys that seal webhook secrets, separated by commas; the first seals, all open. Required with MONGODB_URI',
    type: listOf(secretKey, 100, '<id>:<32 bytes in base64>, several separated by commas'),
    default: 'a key made once in DATA_DIR/secret.key',
    example: 'k1:<openssl rand -base64 32>',
    secret: true,
  },
  ...ofOptions('collectionPrefix', 'indexes', 'limits.bodyMemory'),
  OPTIONS_FILE: {
    meaning:
      'Options of the package by their names, such as {"limits":{"files":100}}: what has no variable. A variable wins; read once, when the gateway starts',
    type: jsonObject,
    default: 'none',
    example: '/etc/gateway/options.json',
  },
  UPSTREAMS_FILE: {
    meaning:
      'A JSON file with several upstreams, each with the fields of the option upstreams; read once, when the gateway starts',
    type: matching(/^[^\0]+$/, 'a path'),
    default: 'the one upstream that the variables below describe',
    example: '/etc/gateway/upstreams.json',
  },
  UPSTREAM_BASE_URL: {
    meaning: 'The OpenAI-compatible API that model calls go to',
    type: httpUrl,
    default: 'a demo upstream with the model demo-echo',
    example: 'https://api.openai.com/v1',
  },
  UPSTREAM_API_KEY: {
    meaning: 'Sent to the upstream as its bearer token',
    type: matching(/^[\x21-\x7e]+$/, 'printable ASCII without spaces'),
    default: 'none',
    example: 'sk-…',
    secret: true,
  },
  HTTPS_PROXY: {
    meaning: 'The proxy that upstreams with https URLs are called through; https_proxy is read first',
    type: proxyUrl,
    default: 'HTTP_PROXY',
    example: 'http://user:password@proxy.example.com:3128',
    secret: true,
    lowerCase: true,
  },
  HTTP_PROXY: {
    meaning: 'The proxy that upstreams with http URLs are called through; http_proxy is read first',
    type: proxyUrl,
    default: 'none',
    example: 'http://proxy.example.com:3128',
    secret: true,
    lowerCase: true,
  },
  NO_PROXY: {
    meaning:
      'Hosts that are called without those proxies, each with its subdomains, or at one port alone (host:port); * is every host; no_proxy is read first',
    type: textThat('host names and addresses, separated by commas or spaces', () => true),
    default: 'none',
    example: 'localhost,.internal,10.1.2.3:8000',
    lowerCase: true,
  },
  ALLOW_HTTP: {
    meaning: 'Whether webhooks may use plain http',
    type: yesOrNo,
    default: 'true while HOST is loopback and NODE_ENV is not production, else false',
    example: 'false',
  },
  ALLOW_PRIVATE_NETWORKS: {
    meaning: 'Private networks that webhooks may reach',
    type: listOf(network, 1_000, 'networks such as 10.0.0.0/8,fd00::/8, or none'),
    default: '127.0.0.0/8,::1/128 while HOST is loopback and NODE_ENV is not production, else none',
    example: '10.0.0.0/8,192.168.0.0/16',
  },
  // the others; those above keep their places
  ...ofOptions(...optionsWithVariable),
} as const satisfies Readonly<Record<string, Variable>>;

export type VariableName = keyof typeof rows;

/** Every environment variable that the stand-alone gateway reads, in the order they are shown. */
export const variables: Readonly<Record<VariableName, Variable>> = rows;

/** The values of the variables that are set. */
export type Settings = {
  readonly [Name in VariableName]?: (typeof rows)[Name]['type'] extends Reader<infer T> ? T : never;
};

/** Variables that there once were, and what takes their place. */
export const formerVariables: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    Object.entries({
      UPSTREAM_NAME: 'name',
      UPSTREAM_INCLUDE_USAGE: 'includeUsage',
      UPSTREAM_MASK_ERRORS: 'maskErrors',
      UPSTREAM_MAX_CONCURRENCY: 'maxConcurrency',
    }).map(([name, field]) => [name, `set ${field} in UPSTREAMS_FILE`]),
  ),
  ...Object.fromEntries(
    Object.entries({
      ABORT_ON_DISCONNECT: 'modelCalls.abortOnDisconnect',
      BACKGROUND_POLL_INTERVAL: 'background.pollInterval',
      BACKGROUND_TIMEOUT: 'background.timeout',
      CHANGE_STREAMS: 'deliveries.changeStreams',
      CONCURRENCY_PER_ACCOUNT: 'deliveries.concurrencyPerAccount',
      CONCURRENCY_PER_WEBHOOK: 'deliveries.concurrencyPerWebhook',
      DISABLE_ON_GONE: 'deliveries.disableOnGone',
      HONOR_RETRY_AFTER: 'deliveries.honorRetryAfter',
      KEY_GRACE_PERIOD: 'modelCalls.keyGracePeriod',
      MANAGEMENT_RATE_LIMIT: 'limits.writesPerMinute',
      MAX_API_KEYS: 'limits.apiKeys',
      MAX_FILES: 'limits.files',
      MAX_FILE_BYTES: 'limits.fileBytes',
      MAX_SOCKETS: 'sockets.maxPerAccount',
      PROPAGATE_TRACES_TO_RECEIVERS: 'tracing.propagateToReceivers',
      PROPAGATE_TRACES_TO_UPSTREAMS: 'tracing.propagateToUpstreams',
      QUOTA_THRESHOLDS: 'quotas.thresholds',
      READ_RATE_LIMIT: 'limits.readsPerMinute',
      SOCKET_IDLE_TIMEOUT: 'sockets.idleTimeout',
      STORED_PRICES: 'credits.storedPrices',
      TOOL_PRICES: 'credits.toolPrices',
    } satisfies Readonly<Record<string, OptionPath>>).map(([name, path]) => [name, `set ${path} in OPTIONS_FILE`]),
  ),
  ...Object.fromEntries(
    Object.entries({
      BACKGROUND_POLL_LIMIT: 'backgroundPollLimit',
      LIMIT_EVENT_WINDOW: 'limits.eventWindow',
      MAX_SOCKET_MESSAGE_BYTES: 'maxSocketMessageBytes',
      RECOVER_RATE: 'recoverRate',
      STORED_RETENTION_DAYS: 'storedRetentionDays',
      USAGE_BACKLOG: 'usageBacklog',
    } satisfies Readonly<Record<string, keyof typeof constants>>).map(([name, constant]) => [
      name,
      `it is fixed at ${constants[constant]}`,
    ]),
  ),
};
