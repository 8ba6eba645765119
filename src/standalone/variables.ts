import { duration, httpUrl, listOf, network, type Reader, textOf, wholeNumber, yesOrNo } from './readers.ts';

/** One environment variable: what parses it, what `--help` and the README say about it. */
export interface Variable<T> {
  readonly meaning: string;
  readonly reader: Reader<T>;
  /** In words; empty where there is none. */
  readonly default: string;
  readonly example: string;
  /** Never repeated in an error. */
  readonly secret?: true;
}

function variable<T>(description: Variable<T>): Variable<T> {
  return description;
}

const minute = 60_000;
const year = 365 * 24 * 60 * minute;
const secretKey = textOf(/^[A-Za-z0-9_-]{1,32}:[A-Za-z0-9+/_-]{43}=?$/, '<id>:<32 bytes in base64>');

/** Every environment variable the stand-alone gateway reads. The one place they are described. */
export const variables = {
  PORT: variable({
    meaning: 'Port to listen on; 0 takes a free one',
    reader: wholeNumber(0, 65_535),
    default: '3000',
    example: '8080',
  }),
  HOST: variable({
    meaning: 'Address to listen on; loopback by default, 0.0.0.0 for every interface',
    reader: textOf(/^[A-Za-z0-9.:_-]+$/, 'a host name or an address'),
    default: '127.0.0.1',
    example: '0.0.0.0',
  }),
  DATA_DIR: variable({
    meaning: 'Folder for the embedded database and the secret key',
    reader: textOf(/^[^\0]+$/, 'a path'),
    default: '.data',
    example: '/var/lib/gateway',
  }),
  MONGODB_URI: variable({
    meaning: 'A MongoDB replica set to use in place of the embedded one',
    reader: textOf(/^mongodb(\+srv)?:\/\/\S+$/, 'a mongodb:// or mongodb+srv:// URI'),
    default: 'the embedded database',
    example: 'mongodb://db1,db2,db3/gateway?replicaSet=rs0',
    secret: true,
  }),
  SECRET_KEYS: variable({
    meaning:
      'Keys that seal webhook secrets, separated by commas; the first seals, all open. Required with MONGODB_URI',
    reader: listOf(secretKey, 100, '<id>:<32 bytes in base64>, several separated by commas'),
    default: 'a key made once in DATA_DIR/secret.key',
    example: 'k1:<openssl rand -base64 32>',
    secret: true,
  }),
  UPSTREAM_BASE_URL: variable({
    meaning: 'Where model calls are relayed to, an OpenAI-compatible API',
    reader: httpUrl,
    default: 'a demo upstream with the model demo-echo',
    example: 'https://api.openai.com/v1',
  }),
  UPSTREAM_API_KEY: variable({
    meaning: 'Sent to the upstream as its bearer token',
    reader: textOf(/^[\x21-\x7e]+$/, 'printable ASCII without spaces'),
    default: 'none',
    example: 'sk-…',
    secret: true,
  }),
  UPSTREAM_NAME: variable({
    meaning: 'What the upstream is called in logs and usage records',
    reader: textOf(/^[\w.-]{1,64}$/, '1 to 64 letters, digits, ., _ and -'),
    default: 'upstream',
    example: 'openai',
  }),
  ALLOW_HTTP: variable({
    meaning: 'Whether webhooks may be plain http',
    reader: yesOrNo,
    default: 'true, and false with NODE_ENV=production',
    example: 'false',
  }),
  ALLOW_PRIVATE_NETWORKS: variable({
    meaning: 'Networks that webhooks may reach although they are not public',
    reader: listOf(network, 1_000, 'networks such as 10.0.0.0/8,fd00::/8, or none'),
    default: '127.0.0.0/8,::1/128, and none with NODE_ENV=production',
    example: '10.0.0.0/8,192.168.0.0/16',
  }),
  RETRY_DELAYS: variable({
    meaning: 'Waits before attempts 2 to 6 of a delivery, each from the end of the attempt before',
    reader: listOf(duration(0, year, ''), 5, 'at most five durations such as 300ms,1m,2h, or none'),
    default: '1m,5m,30m,2h,8h',
    example: '2s,4s,8s',
  }),
  ATTEMPT_TIMEOUT: variable({
    meaning: 'Time one delivery attempt may take in all',
    reader: duration(1, 30_000, 'a duration from 1ms to 30s'),
    default: '30s',
    example: '10s',
  }),
  CONCURRENCY: variable({
    meaning: 'Delivery attempts in flight at once',
    reader: wholeNumber(1, 10_000),
    default: '50',
    example: '200',
  }),
  MAX_WEBHOOKS: variable({
    meaning: 'Webhooks one account may have',
    reader: wholeNumber(1, 100_000),
    default: '50',
    example: '10',
  }),
  MANAGEMENT_RATE_LIMIT: variable({
    meaning: 'Changes of webhooks one account may make in a minute',
    reader: wholeNumber(1, 1_000_000),
    default: '300',
    example: '60',
  }),
  RETENTION_DAYS: variable({
    meaning: 'Days that events and ended deliveries are kept',
    reader: wholeNumber(1, 3_650),
    default: '30',
    example: '90',
  }),
  COLLECTION_PREFIX: variable({
    meaning: 'Put before the name of every collection',
    reader: textOf(/^[A-Za-z][A-Za-z0-9_-]{0,40}$/, 'a letter, then at most 40 letters, digits, _ and -'),
    default: 'gateway_',
    example: 'llm_',
  }),
} satisfies Readonly<Record<string, Variable<unknown>>>;

export type VariableName = keyof typeof variables;

/** What the variables that are set say. */
export type Settings = {
  readonly [Name in VariableName]?: (typeof variables)[Name] extends Variable<infer T> ? T : never;
};
