import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { type Configuration, namingVariable, readConfiguration } from '../../../src/cli/config/config.ts';
import { type Environment, variablesAsMarkdown, variablesForHelp } from '../../../src/cli/config/environment.ts';
import { formerVariables, variables } from '../../../src/cli/config/variables.ts';
import { defaultRetryDelays, GatewayError } from '../../../src/index.ts';
import { parseDuration } from '../../../src/options/kinds.ts';
import { table } from '../../../src/options/table.ts';
import { documentText } from '../../documentation/documents.ts';
import { createGateway } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';

const key = (id: string) => `${id}:${Buffer.alloc(32, id).toString('base64')}`;
const uri = 'mongodb://user:canary-password@db:27017/gateway?replicaSet=rs0';
const upstream = 'https://api.example.com/v1';
const notJson = fileURLToPath(import.meta.url);
const pricesFile = fileURLToPath(new URL('./prices.json', import.meta.url));

function refusal(env: Environment): GatewayError {
  try {
    readConfiguration(env);
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('the configuration from the environment', () => {
  type Pick<T> = (configuration: Configuration) => T;
  const right: [Environment, Pick<unknown>, unknown][] = [
    [{}, (c) => c.port, 3000],
    [{ PORT: '' }, (c) => c.port, 3000],
    [{ PORT: '0' }, (c) => c.port, 0],
    [{ PORT: '65535' }, (c) => c.port, 65_535],
    [{}, (c) => c.options.tracing, undefined],
    [
      { OPTIONS_FILE: '{"tracing":{"propagateToReceivers":true}}' },
      (c) => c.options.tracing,
      { propagateToReceivers: true },
    ],
    [{}, (c) => c.logLevel, 'info'],
    [{ LOG_LEVEL: 'silent' }, (c) => c.logLevel, 'silent'],
    [{}, (c) => c.host, '127.0.0.1'],
    [{ HOST: '::1' }, (c) => c.host, '::1'],
    [{}, (c) => c.dataDir, '.data'],
    [{ DATA_DIR: '/var/lib/gw' }, (c) => c.dataDir, '/var/lib/gw'],
    [{}, (c) => c.mongodbUri, undefined],
    [{ MONGODB_URI: uri, SECRET_KEYS: key('k1') }, (c) => c.mongodbUri, uri],
    [{}, (c) => c.secretKeys, undefined],
    [{ SECRET_KEYS: `${key('k2')}, ${key('k1')}` }, (c) => c.secretKeys, [key('k2'), key('k1')]],
    [{}, (c) => c.upstreams, undefined],
    [{ UPSTREAM_BASE_URL: upstream }, (c) => c.upstreams, [{ name: 'upstream', baseUrl: upstream }]],
    [
      { UPSTREAM_BASE_URL: upstream, UPSTREAM_API_KEY: 'sk-1' },
      (c) => c.upstreams,
      [{ name: 'upstream', baseUrl: upstream, apiKey: 'sk-1' }],
    ],
    [{}, (c) => c.allowHttp, true],
    [{ NODE_ENV: 'production' }, (c) => c.allowHttp, false],
    [{ NODE_ENV: 'production', ALLOW_HTTP: 'true' }, (c) => c.allowHttp, true],
    [{ ALLOW_HTTP: 'no' }, (c) => c.allowHttp, false],
    ...(['127.0.0.1', '127.1.2.3', 'localhost', '::1'] as const).map((HOST): [Environment, Pick<unknown>, unknown] => [
      { HOST },
      (c) => [c.allowHttp, c.allowPrivateNetworks, c.allowedBecause],
      [true, ['127.0.0.0/8', '::1/128'], 'HOST is loopback, NODE_ENV is not production'],
    ]),
    ...(['0.0.0.0', '::', '192.168.1.5', 'gateway.example', '127.evil.example', '127.1'] as const).map(
      (HOST): [Environment, Pick<unknown>, unknown] => [
        { HOST },
        (c) => [c.allowHttp, c.allowPrivateNetworks, c.allowedBecause],
        [false, [], `HOST ${HOST} is not loopback`],
      ],
    ),
    [
      { HOST: '0.0.0.0', ALLOW_HTTP: 'true', ALLOW_PRIVATE_NETWORKS: '127.0.0.0/8' },
      (c) => [c.allowHttp, c.allowPrivateNetworks],
      [true, ['127.0.0.0/8']],
    ],
    [{}, (c) => c.allowPrivateNetworks, ['127.0.0.0/8', '::1/128']],
    [{ NODE_ENV: 'production' }, (c) => c.allowPrivateNetworks, []],
    [{ NODE_ENV: 'production', ALLOW_PRIVATE_NETWORKS: '10.0.0.0/8' }, (c) => c.allowPrivateNetworks, ['10.0.0.0/8']],
    [{ ALLOW_PRIVATE_NETWORKS: 'fd00::/8, 10.0.0.0/8' }, (c) => c.allowPrivateNetworks, ['fd00::/8', '10.0.0.0/8']],
    [{ ALLOW_PRIVATE_NETWORKS: 'none' }, (c) => c.allowPrivateNetworks, []],
    [{}, (c) => c.options, {}],
    [{ RETRY_DELAYS: '300ms, 1m, 2h' }, (c) => c.options.retryDelays, [300, 60_000, 7_200_000]],
    [{ RETRY_DELAYS: 'none' }, (c) => c.options.retryDelays, []],
    [{ DRAIN_TIMEOUT: '2m' }, (c) => c.options, { drainTimeout: 120_000 }],
    [{}, (c) => c.shutdownDelay, 0],
    [{ SHUTDOWN_DELAY: '15s' }, (c) => c.shutdownDelay, 15_000],
    [{}, (c) => c.hstsMaxAge, undefined],
    [{ HSTS_MAX_AGE: '365d' }, (c) => c.hstsMaxAge, 365 * 86_400_000],
    [{ ATTEMPT_TIMEOUT: '1.5s' }, (c) => c.options, { deliveries: { attemptTimeout: 1_500 } }],
    [{ CONCURRENCY: '200' }, (c) => c.options, { deliveries: { concurrency: 200 } }],
    [{ DISABLE_AFTER_DAYS: '5' }, (c) => c.options, { deliveries: { disableAfterDays: 5 } }],
    [{ STREAM_HEARTBEAT: '15s' }, (c) => c.options, { modelCalls: { streamHeartbeat: 15_000 } }],
    [{ MAX_WEBHOOKS: '5' }, (c) => c.options, { limits: { webhooks: 5 } }],
    [{ RETENTION_DAYS: '7' }, (c) => c.options, { deliveries: { retentionDays: 7 } }],
    [{ SERVE_OPENAPI: 'false' }, (c) => c.options, { serveOpenApi: false }],
    [{ COLLECTION_PREFIX: 'llm_' }, (c) => c.options, { collectionPrefix: 'llm_' }],
    [{ BODY_MEMORY: '1073741824' }, (c) => c.options, { limits: { bodyMemory: 1024 ** 3 } }],
    [{ KEY_REQUESTS_PER_MINUTE: '60' }, (c) => c.options, { limits: { perKey: { requestsPerMinute: 60 } } }],
    [
      { KEY_TOKENS_PER_MINUTE: '9', USER_REQUESTS_PER_MINUTE: '0', USER_TOKENS_PER_MINUTE: '7', SHARED_LIMITS: 'yes' },
      (c) => c.options.limits,
      { perKey: { tokensPerMinute: 9 }, perUser: { requestsPerMinute: 0, tokensPerMinute: 7 }, shared: true },
    ],
    [{ DAILY_QUOTA: '5' }, (c) => c.options, { quotas: { perUser: { unit: 'tokens', daily: 5 } } }],
    [
      {
        MONTHLY_QUOTA: '5',
        QUOTA_UNIT: 'requests',
        OPTIONS_FILE: '{"quotas":{"thresholds":[50,100]}}',
      },
      (c) => c.options.quotas,
      { perUser: { unit: 'requests', monthly: 5 }, thresholds: [50, 100] },
    ],
    [
      { OPTIONS_FILE: '{"credits":{"prices":{"*":{}},"storedPrices":{"file":{"each":1}}}}', INITIAL_CREDITS: '5' },
      (c) => c.options.credits,
      { prices: { '*': {} }, storedPrices: { file: { each: 1 } }, initialBalance: 5 },
    ],
    [
      { OPTIONS_FILE: '{"credits":{"toolPrices":{"web_search":1}}}', CREDIT_PRICES: '{"*":{"input":1}}' },
      (c) => c.options.credits,
      { prices: { '*': { input: 1 } }, toolPrices: { web_search: 1 } },
    ],
    [
      { OPTIONS_FILE: '{"limits":{"files":5,"webhooks":6},"modelCalls":{"keyGracePeriod":1}}', MAX_WEBHOOKS: '7' },
      (c) => c.options,
      { limits: { files: 5, webhooks: 7 }, modelCalls: { keyGracePeriod: 1 } },
    ],
    [
      { OPTIONS_FILE: '{"endpoints":[{"path":"/v1/classify","schema":{"type":"object"},"units":"/n"}]}' },
      (c) => c.options.endpoints,
      [{ path: '/v1/classify', schema: { type: 'object' }, units: '/n' }],
    ],
    [
      {
        OPTIONS_FILE: '{"limits":{"perKey":{"requestsPerMinute":1}}}',
        WORKERS: '2',
        MONGODB_URI: uri,
        SECRET_KEYS: key('k1'),
      },
      (c) => c.warnings,
      [
        'The limits of calls in OPTIONS_FILE count in each of 2 processes alone; SHARED_LIMITS=true makes them one count of all',
      ],
    ],
    [
      { OPTIONS_FILE: '{"limits":{"perUser":{"requestsPerMinute":1}}}', SHARED_LIMITS: 'true' },
      (c) => c.options.limits,
      { perUser: { requestsPerMinute: 1 }, shared: true },
    ],
    [{ CREDIT_PRICES: '{"*":{}}' }, (c) => c.options, { credits: { prices: { '*': {} } } }],
    [
      {
        CREDIT_PRICES: pricesFile,
        INITIAL_CREDITS: '0.5',
        CREDIT_LOW_THRESHOLD: '10',
        DAILY_QUOTA: '1',
        QUOTA_UNIT: 'credits',
      },
      (c) => [c.options.credits, c.options.quotas],
      [
        { prices: { '*': { input: 1 } }, initialBalance: 0.5, lowThreshold: 10 },
        { perUser: { unit: 'credits', daily: 1 } },
      ],
    ],
    [
      { EVENT_TYPES: '{"order.shipped":{"schema":{"type":"object"},"example":{}}}' },
      (c) => c.options.eventTypes,
      { 'order.shipped': { schema: { type: 'object' }, example: {} } },
    ],
  ];
  for (const [env, pick, expected] of right) {
    it(`reads ${JSON.stringify(env).slice(0, 90)} (${String(pick).replace('(c) => c.', '')})`, () => {
      expect(pick(readConfiguration(env))).to.deep.equal(expected);
    });
  }

  const wrong: [keyof typeof variables, string[]][] = [
    ['PORT', ['65536', '-1', 'http', '80.5', '1e3', ' ']],
    ['HOST', ['a host', 'http://x']],
    ['MONGODB_URI', ['localhost:27017', 'http://db/']],
    ['SECRET_KEYS', ['secret', 'k1:c2hvcnQ=', `${key('k1')},`, `${key('k1')},${key('k1')}`, 'none']],
    ['UPSTREAM_BASE_URL', ['api.example.com', 'ftp://x/', 'https://']],
    ['UPSTREAM_API_KEY', ['two words', 'sk-ü']],
    ['ALLOW_HTTP', ['maybe', '2']],
    ['ALLOW_PRIVATE_NETWORKS', ['10.0.0.0', '10.0.0.0/33', '10.0.0.0/8/8', 'localhost/8', '::1/129', '10.0.0.0/8,']],
    ['RETRY_DELAYS', ['60', '1m,', '1m,5x', '1s,1s,1s,1s,1s,1s', '-1s', '400d']],
    ['ATTEMPT_TIMEOUT', ['31s', '0', '30']],
    ['DRAIN_TIMEOUT', ['2h', '30']],
    ['SHUTDOWN_DELAY', ['2h', '15']],
    ['HSTS_MAX_AGE', ['forever', '731d']],
    ['CONCURRENCY', ['0', '10001', '1.5']],
    ['DISABLE_AFTER_DAYS', ['0', '366', '5d']],
    ['MAX_WEBHOOKS', ['0', 'many']],
    ['RETENTION_DAYS', ['0', '3651', '30d']],
    ['SERVE_OPENAPI', ['no one', '2']],
    ['KEY_REQUESTS_PER_MINUTE', ['-1', '1.5', 'many']],
    ['USER_TOKENS_PER_MINUTE', ['10k']],
    ['SHARED_LIMITS', ['maybe', 'true']],
    ['QUOTA_UNIT', ['euros', 'tokens', 'credits']],
    ['DAILY_QUOTA', ['0', '-1', '1e6']],
    [
      'CREDIT_PRICES',
      ['1', '[]', '{', '{}', 'no-such-file.json', '{"*":{"inputs":1}}', '{"*":{"input":-1}}', '{"*":{"input":"1"}}'],
    ],
    ['INITIAL_CREDITS', ['-1', '0.0000001', '1', 'some']],
    ['CREDIT_LOW_THRESHOLD', ['-1', '5', 'low']],
    ['CREDIT_OVERDRAFT', ['-1', '5', 'all']],
    [
      'EVENT_TYPES',
      [
        'order.shipped',
        '{"shipped":{}}',
        '{"order.shipped":{}}',
        '{"order.shipped":{"schema":{"type":"string"},"example":{}}}',
      ],
    ],
    ['BODY_MEMORY', ['1', '64MiB']],
    ['OPTIONS_FILE', ['1', '[]', '{', 'no-such-file.json', '{"limit":{}}', '{"limits":{"files":0}}', '{"maxFiles":5}']],
    ['COLLECTION_PREFIX', ['1_', 'a.b', '$x', 'x'.repeat(42)]],
  ];
  for (const [name, values] of wrong) {
    for (const value of values) {
      it(`refuses ${name}=${JSON.stringify(value).slice(0, 60)} by name`, () => {
        const error = refusal({ UPSTREAM_BASE_URL: upstream, SECRET_KEYS: key('k1'), [name]: value });
        expect(error).to.include({ code: 'invalid_options', param: name });
        expect(error.message).to.match(new RegExp(`^${name}(\\[.+)?: `));
      });
    }
  }

  it('says what is allowed and what was given', () => {
    expect(refusal({ PORT: 'http' }).message).to.equal("PORT: must be a whole number from 0 to 65535, not 'http'");
  });

  it('says where in a JSON value the mistake is, and what is allowed there', () => {
    expect(refusal({ CREDIT_PRICES: '{"*":{"inputs":1}}' }).message).to.equal(
      "CREDIT_PRICES['*'].inputs: is not an option; there are input, cachedInput, output, image, second, character, batch, training, audioInput, cachedAudioInput, audioOutput, cacheWrite, unit",
    );
    expect(refusal({ CREDIT_PRICES: '{}' }).message).to.match(/^CREDIT_PRICES: must have '\*'/);
    expect(refusal({ CREDIT_PRICES: '{"*":{}}', CREDIT_OVERDRAFT: '-1' }).message).to.match(
      /^CREDIT_OVERDRAFT: must be an amount/,
    );
    expect(refusal({ EVENT_TYPES: '{"shipped":{}}' }).message).to.match(/^EVENT_TYPES\['shipped'\]: must be called/);
  });

  it('refuses a variable that has no effect, and names the missing one', () => {
    expect(refusal({ INITIAL_CREDITS: '5' }).message).to.equal(
      'INITIAL_CREDITS: is set without CREDIT_PRICES, so nothing would use it',
    );
    expect(refusal({ QUOTA_UNIT: 'requests' }).message).to.contain('DAILY_QUOTA or MONTHLY_QUOTA');
    expect(refusal({ QUOTA_UNIT: 'requests', OPTIONS_FILE: '{"quotas":{"thresholds":[50]}}' }).message).to.contain(
      'DAILY_QUOTA or MONTHLY_QUOTA',
    );
    expect(refusal({ QUOTA_UNIT: 'credits', DAILY_QUOTA: '1' }).message).to.contain('CREDIT_PRICES');
    expect(refusal({ SHARED_LIMITS: 'true', OPTIONS_FILE: '{"limits":{"files":5}}' }).message).to.match(
      /^SHARED_LIMITS: is set without KEY_REQUESTS_PER_MINUTE or /,
    );
  });

  it('says what is wrong in OPTIONS_FILE, and what is set elsewhere', () => {
    const problem = (options: object) => refusal({ OPTIONS_FILE: JSON.stringify(options) }).message;
    expect(problem({ limits: { files: 0 } })).to.equal(
      'OPTIONS_FILE: limits.files: must be a whole number from 1 to 1000000, not 0',
    );
    expect(problem({ maxFiles: 5 })).to.equal('OPTIONS_FILE: maxFiles: is called limits.files now');
    expect(problem({ onUsage: 'x' })).to.equal('OPTIONS_FILE: onUsage: must be a function');
    expect(problem({ mongo: 'x' })).to.equal('OPTIONS_FILE: mongo: is set by MONGODB_URI');
    expect(problem({ allowHttp: false })).to.equal('OPTIONS_FILE: allowHttp: is set by ALLOW_HTTP');
    expect(
      refusal({ OPTIONS_FILE: '{"limits":{"modelBodyBytes":1073741824}}', BODY_MEMORY: '1073741824' }).message,
    ).to.equal('BODY_MEMORY: must be a whole number from 2147483648 to 1099511627776, not 1073741824');
  });

  for (const [name, instead] of Object.entries(formerVariables)) {
    it(`refuses ${name}, which is no variable any more, and says what takes its place`, () => {
      const error = refusal({ [name]: '1' });
      expect(error.param).to.equal(name);
      expect(error.message).to.equal(`${name}: is no variable any more: ${instead}`);
      expect(variables).not.to.have.property(name);
      const [, path] = /^set (\S+) in OPTIONS_FILE$/.exec(instead) ?? [];
      if (path) expect(table).to.have.property(path);
    });
  }

  it('never repeats a secret in an error', () => {
    const canary = 'canary secret';
    for (const [name, { secret }] of Object.entries(variables).filter(([, variable]) => 'secret' in variable)) {
      expect(secret, name).to.equal(true);
      const error = refusal({ UPSTREAM_BASE_URL: upstream, SECRET_KEYS: key('k1'), [name]: canary });
      expect(error.message).not.to.include(canary);
    }
  });

  it('names the file that has no JSON object, and why, but nothing that stands in it', () => {
    const takes = 'must be a JSON object, or the path of a file with one';
    for (const [text, problem] of [
      ['no-such-file.json', 'no-such-file.json cannot be read (ENOENT)'],
      [notJson, `${notJson} is not JSON`],
      ['{"proxy":"canary"', 'it is not JSON'],
      ['["canary"]', 'it cannot be read (ENOENT)'],
    ] as const) {
      for (const name of ['OPTIONS_FILE', 'CREDIT_PRICES'])
        expect(refusal({ [name]: text }).message).to.equal(`${name}: ${takes}: ${problem}`);
    }
  });

  it('refuses MONGODB_URI without SECRET_KEYS and says how to make one', () => {
    const error = refusal({ MONGODB_URI: uri });
    expect(error.param).to.equal('SECRET_KEYS');
    expect(error.message).to.include('openssl rand -base64 32');
  });

  it('refuses UPSTREAM_API_KEY without UPSTREAM_BASE_URL', () => {
    expect(refusal({ UPSTREAM_API_KEY: 'sk-1' }).param).to.equal('UPSTREAM_API_KEY');
  });

  it('documents every variable in --help', () => {
    for (const [name, { meaning, type }] of Object.entries(variables)) {
      expect(variablesForHelp()).to.include(`${name}\n      ${meaning}.\n      Takes ${type.allowed}.\n`);
    }
  });

  it('documents every variable in docs/variables.md, by the same table', () => {
    expect(documentText('docs/variables.md')).to.include(variablesAsMarkdown());
  });

  it('documents the actual default delays', () => {
    const documented = variables.RETRY_DELAYS.default.split(',').map(parseDuration);
    expect(documented).to.deep.equal(defaultRetryDelays);
  });

  it('warns of names that resemble a variable in any case, and of no other', () => {
    const env = { UPSTREAM_BASEURL: upstream, upstream_api_key: 'sk-1', HOME: '/root', PATHS: 'x', NODE_OPTIONS: '' };
    expect(readConfiguration(env).warnings).to.deep.equal([
      'UPSTREAM_BASEURL is not a variable of the gateway and is ignored; did you mean UPSTREAM_BASE_URL?',
      'upstream_api_key is not a variable of the gateway and is ignored; did you mean UPSTREAM_API_KEY?',
    ]);
  });

  it('warns of every unknown variable that has the prefix of the gateway, and of none that Kubernetes sets', () => {
    const prefix = 'EXPRESS_MODEL_GATEWAY_';
    const unknown = {
      [`${prefix}PORT`]: '8080',
      [`${prefix}UPSTREAM_BASEURL`]: upstream,
      [`${prefix}APIKEY`]: 'emg_1',
      [`${prefix}COLOUR`]: 'blue',
      express_model_gateway_ttl: '1',
    };
    const known = {
      [`${prefix}API_KEY`]: 'emg_1',
      [`${prefix}BASE_URL`]: 'http://localhost:3000',
      [`${prefix}PROCESS`]: '1',
      [`${prefix}SERVICE_HOST`]: '10.0.0.1',
      [`${prefix}SERVICE_PORT`]: '80',
      [`${prefix}SERVICE_PORT_HTTP`]: '80',
      [`${prefix}PORT_80_TCP_ADDR`]: '10.0.0.1',
    };
    const ignored = (name: string) => `${name} is not a variable of the gateway and is ignored;`;
    expect(readConfiguration({ ...unknown, ...known }).warnings).to.deep.equal([
      `${ignored('EXPRESS_MODEL_GATEWAY_PORT')} did you mean PORT?`,
      `${ignored('EXPRESS_MODEL_GATEWAY_UPSTREAM_BASEURL')} did you mean UPSTREAM_BASE_URL?`,
      `${ignored('EXPRESS_MODEL_GATEWAY_APIKEY')} did you mean EXPRESS_MODEL_GATEWAY_API_KEY?`,
      `${ignored('EXPRESS_MODEL_GATEWAY_COLOUR')} 'express-model-gateway start --help' lists those that it reads`,
      `${ignored('express_model_gateway_ttl')} 'express-model-gateway start --help' lists those that it reads`,
    ]);
    expect(readConfiguration({ [`${prefix}PORT`]: 'tcp://10.0.0.1:80' }).warnings).to.deep.equal([]);
  });

  it('warns of an upstream without a path, and shows no credentials', () => {
    const { warnings } = readConfiguration({ UPSTREAM_BASE_URL: 'https://user:canary@api.example.com' });
    expect(warnings).to.deep.equal([
      "https://api.example.com of the upstream 'upstream' has no path; the APIs of most providers are under /v1",
    ]);
    expect(readConfiguration({ UPSTREAM_BASE_URL: upstream }).warnings).to.deep.equal([]);
  });
});

describe('CORS_ORIGINS', () => {
  for (const wrong of [
    'app.example.com',
    'localhost:5173',
    'https://app.example.com/',
    'https://app.example.com/app',
    'https://app.example.com:443',
    'https://App.example.com',
    'https://*.example.com',
    'https://user@app.example.com',
    'null',
    'https://app.example.com,',
    '*,https://app.example.com',
    'https://app.example.com https://other.example.com',
  ]) {
    it(`of '${wrong}' is refused, and the error says what it takes`, () => {
      expect(() => readConfiguration({ CORS_ORIGINS: wrong }))
        .to.throw(/^CORS_ORIGINS: must be origins without a path or a slash at the end, such as https:/)
        .with.property('param', 'CORS_ORIGINS');
    });
  }

  it('takes the origins of apps and extensions, and none', () => {
    const origins = ['app://obsidian.md', 'chrome-extension://abcdefgh', 'http://[::1]:5173', 'capacitor://localhost'];
    expect(readConfiguration({ CORS_ORIGINS: origins.join(',') }).corsOrigins).to.deep.equal(origins);
    expect(readConfiguration({ CORS_ORIGINS: 'none' }).corsOrigins).to.deep.equal([]);
  });
});

describe('a stand-alone server', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  before(async () => {
    database = await freshDatabase();
  });
  after(() => database.drop());

  it('says which variable has what is found wrong at start, or that it is in OPTIONS_FILE', async () => {
    const types = { 'order.shipped': { schema: { type: 'object', required: ['id'] }, example: {} } };
    const endpoints = [{ path: '/v1/files/mine', schema: { type: 'object' } }];
    for (const [place, env] of [
      ["EVENT_TYPES['order.shipped']", { EVENT_TYPES: JSON.stringify(types) }],
      ["OPTIONS_FILE: eventTypes['order.shipped']", { OPTIONS_FILE: JSON.stringify({ eventTypes: types }) }],
      ['OPTIONS_FILE: endpoints[0].path: ', { OPTIONS_FILE: JSON.stringify({ endpoints }) }],
    ] as const) {
      const { options, set } = readConfiguration(env);
      const thrown = await createGateway({ mongo: database.connection, ...options }).catch((error: unknown) => error);
      const named = namingVariable(thrown, set) as GatewayError;
      expect(named.message.startsWith(place), named.message).to.equal(true);
      expect(named.param).to.equal(Object.keys(env)[0]);
    }
  });

  for (const [HOST, isOpen] of [
    ['0.0.0.0', false],
    ['::', false],
    ['127.0.0.1', true],
  ] as const) {
    it(`${isOpen ? 'accepts' : 'refuses'} webhooks to its own loopback address with HOST=${HOST}`, async () => {
      const { allowHttp, allowPrivateNetworks } = readConfiguration({ HOST });
      const gateway = await createGateway({
        mongo: database.connection,
        allowHttp,
        allowPrivateNetworks,
      });
      const refused: unknown[] = [];
      for (const url of ['http://127.0.0.1:9000', 'http://localhost:9000', 'https://127.0.0.1:9000']) {
        const webhook = { url, events: ['credits.low'], secret: 'a-long-enough-secret' };
        await gateway.webhooks.create('usr_1', webhook).catch((error: unknown) => refused.push(error));
      }
      await gateway.close();
      expect(refused).to.have.length(isOpen ? 0 : 3);
      for (const error of refused) expect(error).to.be.instanceOf(GatewayError);
    });
  }
});
