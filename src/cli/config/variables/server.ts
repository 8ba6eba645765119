import { duration, httpUrl, listOf, oneOf, originsOrAny, textOf, wholeNumber, yesOrNo } from '../parsers.ts';

const hour = 60 * 60_000;

const secretKey = textOf(/^[A-Za-z0-9_-]{1,32}:[A-Za-z0-9+/_-]{43}=?$/, '<id>:<32 bytes in base64>');

/** Where the gateway listens, keeps its data and relays to. */
export const serverVariables = {
  PORT: {
    meaning: 'Port to listen on; 0 picks a free one',
    type: wholeNumber(0, 65_535),
    default: '3000',
    example: '8080',
  },
  HOST: {
    meaning: 'Address to listen on; loopback by default, 0.0.0.0 for every interface',
    type: textOf(/^[A-Za-z0-9.:_-]+$/, 'a host name or an address'),
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
  PROPAGATE_TRACES_TO_UPSTREAMS: {
    meaning: 'Whether upstreams get the header traceparent, where an OpenTelemetry SDK is loaded (NODE_OPTIONS)',
    type: yesOrNo,
    default: 'false',
    example: 'true',
  },
  PROPAGATE_TRACES_TO_RECEIVERS: {
    meaning: 'The same for the receivers of webhooks',
    type: yesOrNo,
    default: 'false',
    example: 'true',
  },
  WORKERS: {
    meaning:
      'How many processes serve PORT together, each with ROLE; one that ends is started again. More than 1 needs MONGODB_URI',
    type: wholeNumber(1, 256),
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
    type: textOf(/^[A-Za-z0-9.:_-]+$/, 'a host name or an address'),
    default: '127.0.0.1',
    example: '0.0.0.0',
  },
  SHUTDOWN_DELAY: {
    meaning:
      'How long requests are still served after SIGTERM, while /readyz is already 503: longer than a load balancer takes to notice',
    type: duration(0, hour, 'a duration from 0s to 1h'),
    default: '0s',
    example: '15s',
  },
  DRAIN_TIMEOUT: {
    meaning: 'How long open calls may still run when the gateway stops; then their streams end with an error',
    type: duration(0, hour, 'a duration from 0s to 1h'),
    default: '30s',
    example: '2m',
  },
  HSTS_MAX_AGE: {
    meaning: 'How long browsers use only TLS for this host (Strict-Transport-Security); set it when TLS is in front',
    type: duration(0, 2 * 365 * 24 * hour, 'a duration from 0s to 730d'),
    default: 'the header is not sent',
    example: '365d',
  },
  CORS_ORIGINS: {
    meaning:
      'Origins whose pages may call /v1 from a browser, separated by commas; each call still needs a key, and cookies are never used',
    type: originsOrAny(100),
    default: 'none: browsers keep other origins from calling',
    example: 'https://app.example.com,http://localhost:5173',
  },
  SERVE_OPENAPI: {
    meaning:
      'Whether anybody may read the description of the API, at /v1/openapi.json, /v1/openapi.yaml and /dashboard/reference/',
    type: yesOrNo,
    default: 'true',
    example: 'false',
  },
  DATA_DIR: {
    meaning: 'Folder for the embedded database and the secret key',
    type: textOf(/^[^\0]+$/, 'a path'),
    default: '.data',
    example: '/var/lib/gateway',
  },
  MONGODB_URI: {
    meaning: 'A MongoDB replica set to use instead of the embedded database',
    type: textOf(/^mongodb(\+srv)?:\/\/\S+$/, 'a mongodb:// or mongodb+srv:// URI'),
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
  COLLECTION_PREFIX: {
    meaning: 'Put before the name of every collection',
    type: textOf(/^[A-Za-z][A-Za-z0-9_-]{0,40}$/, 'a letter, then at most 40 letters, digits, _ and -'),
    default: 'gateway_',
    example: 'llm_',
  },
  INDEXES: {
    meaning:
      'Whether the start builds missing indexes, or refuses to start without them; then the command migrate builds them',
    type: oneOf('build', 'check'),
    default: 'build',
    example: 'check',
  },
  KEY_GRACE_PERIOD: {
    meaning: 'How long a key that this process has checked can make model calls while MongoDB is unavailable',
    type: duration(0, 86_400_000, 'a duration from 0ms to 1d'),
    default: '5m',
    example: '1h',
  },
  USAGE_BACKLOG: {
    meaning:
      'Maximum number of usage records kept in memory while MongoDB is unavailable; above it the oldest are lost',
    type: wholeNumber(1, 10_000_000),
    default: '100000',
    example: '20000',
  },
  BODY_MEMORY: {
    meaning:
      'Maximum bytes of request bodies held at once, until an upstream answers; a request above it gets 429 or 503',
    type: wholeNumber(64 * 1024 ** 2, 1024 ** 4),
    default: '268435456 (256 MiB)',
    example: '1073741824',
  },
  UPSTREAMS_FILE: {
    meaning:
      'A JSON file with several upstreams, each with the fields of the option upstreams; read once, when the gateway starts',
    type: textOf(/^[^\0]+$/, 'a path'),
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
    type: textOf(/^[\x21-\x7e]+$/, 'printable ASCII without spaces'),
    default: 'none',
    example: 'sk-…',
    secret: true,
  },
  UPSTREAM_NAME: {
    meaning: 'Name of the upstream in logs and usage records',
    type: textOf(/^[\w.-]{1,64}$/, '1 to 64 letters, digits, ., _ and -'),
    default: 'upstream',
    example: 'openai',
  },
  STORED_RETENTION_DAYS: {
    meaning: 'Days that the gateway remembers whose a stored response or chat completion is',
    type: wholeNumber(1, 3_650),
    default: '30',
    example: '90',
  },
  BACKGROUND_POLL_INTERVAL: {
    meaning:
      'How long after its first answer the upstream is asked whether a background response has ended; each further wait is half as long again',
    type: duration(10, 60_000, 'a duration from 10ms to 1m'),
    default: '2s',
    example: '5s',
  },
  BACKGROUND_POLL_LIMIT: {
    meaning: 'The longest wait between two polls of one background response',
    type: duration(10, hour, 'a duration from 10ms to 1h'),
    default: '1m',
    example: '5m',
  },
  BACKGROUND_TIMEOUT: {
    meaning:
      'How long the gateway follows a background response; one that has not ended by then is charged by estimate',
    type: duration(1_000, 7 * 24 * hour, 'a duration from 1s to 7d'),
    default: '1d',
    example: '2h',
  },
  UPSTREAM_INCLUDE_USAGE: {
    meaning:
      'Whether streams are asked for their usage (stream_options); false for an upstream that refuses that, whose usage is then estimated',
    type: yesOrNo,
    default: 'true',
    example: 'false',
  },
  UPSTREAM_MASK_ERRORS: {
    meaning:
      "Whether clients get a plain error instead of the upstream's own text for 429 and 5xx; the log keeps the text",
    type: yesOrNo,
    default: 'false',
    example: 'true',
  },
  UPSTREAM_MAX_CONCURRENCY: {
    meaning:
      'Maximum number of calls to the upstream at once; one account gets at most two thirds of what the others leave',
    type: wholeNumber(1, 1_000_000),
    default: '2000',
    example: '500',
  },
  ABORT_ON_DISCONNECT: {
    meaning: 'Whether the upstream call stops when the client disconnects; false lets it finish, for its exact usage',
    type: yesOrNo,
    default: 'true',
    example: 'false',
  },
};
