import { Writable } from 'node:stream';
import { expect } from 'chai';
import pino from 'pino';
import { defaultRetryDelays, GatewayError, type ModelGatewayOptions } from '../../src/index.ts';
import { formatDuration, parseDuration } from '../../src/options/kinds.ts';
import { faultTolerant } from '../../src/options/logger.ts';
import { resolveOptions } from '../../src/options/resolve.ts';
import { checkUpstreams, type UpstreamOptions } from '../../src/options/upstreams.ts';

const required: ModelGatewayOptions = { mongo: 'mongodb://127.0.0.1/x', secretKeys: ['k1:x'] };

function refusal(options: Record<string, unknown>): GatewayError {
  try {
    resolveOptions({ ...required, ...options } as ModelGatewayOptions);
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('the options of a gateway', () => {
  it('are filled in with the documented defaults, and frozen', () => {
    const options = resolveOptions(required);
    expect(options).to.include({ collectionPrefix: 'gateway_', allowStandalone: false });
    expect(options.deliveries).to.include({ attemptTimeout: 30_000, retentionDays: 30, concurrencyPerAccount: 50 });
    expect(options.limits).to.include({ webhooks: 50, modelBodyBytes: 33_554_432, bodyMemory: 268_435_456 });
    expect(options.allowHttp).to.equal(false);
    expect(options.retryDelays).to.equal(defaultRetryDelays);
    expect(options.allowPrivateNetworks).to.deep.equal([]);
    expect([options, options.limits, options.deliveries].every(Object.isFrozen)).to.equal(true);
  });

  it('fall back to the default when the value is undefined', () => {
    expect(
      resolveOptions({ ...required, limits: { webhooks: undefined } } as unknown as ModelGatewayOptions).limits
        .webhooks,
    ).to.equal(50);
  });

  const refused: [param: string, options: Record<string, unknown>, says: RegExp][] = [
    ['mongo', { mongo: '' }, /required/],
    ['secretKeys', { secretKeys: [] }, /required/],
    ['secretKeys', { secretKeys: undefined }, /openssl rand -base64 32/],
    ['retryDelay', { retryDelay: [1] }, /is not an option; there are .*retryDelays/],
    ['deliveries.retentionDay', { deliveries: { retentionDay: 1 } }, /is not an option; there are .*retentionDays/],
    ['retryDelays', { retryDelays: [1, 2, 3, 4, 5, 6] }, /at most 5/],
    ['retryDelays[1]', { retryDelays: [1, -2] }, /whole number of milliseconds/],
    ['retryDelays[0]', { retryDelays: ['1m'] }, /whole number of milliseconds/],
    ['deliveries.attemptTimeout', { deliveries: { attemptTimeout: 30_001 } }, /from 1 to 30000, not 30001/],
    ['deliveries.concurrency', { deliveries: { concurrency: 0 } }, /from 1/],
    ['limits.webhooks', { limits: { webhooks: 1.5 } }, /whole number/],
    ['deliveries.sweepInterval', { deliveries: { sweepInterval: 2_001 } }, /to 2000/],
    ['drainTimeout', { drainTimeout: -1 }, /from 0 to 3600000/],
    ['logger', { logger: { info: () => {}, warn: () => {} } }, /functions info, warn, error/],
    ['logger', { logger: null }, /functions info, warn, error/],
    ['collectionPrefix', { collectionPrefix: '$x' }, /start with a letter/],
    ['indexes', { indexes: 'none' }, /'build' or 'check'/],
    ['usage', { usage: 1 }, /true or false/],
    ['usage', { usage: false, credits: { prices: { '*': {} } } }, /must be true for the option credits/],
    ['usage', { usage: false, quotas: { perUser: { unit: 'tokens' } } }, /must be true for the option quotas/],
    ['limits.apiKeys', { limits: { apiKeys: 0 } }, /whole number/],
    ['credits.initialBalance', { credits: { prices: { '*': {} }, initialBalance: -1 } }, /from 0/],
    ["credits.prices['*'].cachedInput", { credits: { prices: { '*': { cachedInput: '1' } } } }, /number/],
    ['limits.perkey', { limits: { perkey: {} } }, /is not an option; there are perKey/],
    ['limits.perKey.tokens', { limits: { perKey: { tokens: 1 } } }, /tokensPerMinute/],
    ['limits.perUser.requestsPerMinute', { limits: { perUser: { requestsPerMinute: -1 } } }, /whole number/],
    ['limits.eventWindow', { limits: { eventWindow: 1 } }, /fixed at 5 min/],
    ['limits', { limits: null }, /must be an object/],
    ['deliveries', { deliveries: null }, /must be an object/],
    ['limits.bodyMemory', { limits: { modelBodyBytes: 2 ** 30, bodyMemory: 2 ** 30 } }, /from 2147483648/],
    ['limits.shared', { limits: { shared: 1 } }, /true or false/],
    ['quotas.perUser.unit', { quotas: { perUser: { unit: 'words' } } }, /'tokens', 'requests' or 'credits'/],
    ['quotas.perUser.unit', { quotas: { perUser: { unit: 'credits' } } }, /needs the option credits/],
    ['quotas.perUser.daily', { quotas: { perUser: { unit: 'tokens', daily: 0 } } }, /1 or more/],
    ['quotas.thresholds', { quotas: { perUser: { unit: 'tokens' }, thresholds: [0] } }, /percentages/],
    ['authenticate', { authenticate: 'me' }, /must be a function/],
    ['deliveries.onDisable', { deliveries: { onDisable: true } }, /must be a function/],
    ['deliveries.honorRetryAfter', { deliveries: { honorRetryAfter: 'yes' } }, /true or false/],
    ['deliveries.disableOnGone', { deliveries: { disableOnGone: 'yes' } }, /true or false/],
    ['modelCalls.keyGracePeriod', { modelCalls: { keyGracePeriod: -1 } }, /from 0 to 86400000/],
    ['deliveries.disableAfterDays', { deliveries: { disableAfterDays: 0 } }, /from 1 to 365/],
    ['modelCalls.streamHeartbeat', { modelCalls: { streamHeartbeat: 0 } }, /from 100 to 3600000/],
    ['modelCalls.streamHeartbeat', { modelCalls: { streamHeartbeat: '15s' } }, /from 100 to 3600000/],
    ['deliveries.disableAfterDays', { deliveries: { disableAfterDays: '7' } }, /from 1 to 365/],
    ['modelAttempts', { modelAttempts: 2 }, /^modelAttempts: is called modelCalls\.attempts now$/],
    ['modelCalls', { modelCalls: 3 }, /must be an object/],
    ['modelCalls.tries', { modelCalls: { tries: 3 } }, /is not an option; there are attempts/],
    ['recoverRate', { recoverRate: 10 }, /^recoverRate: is no option any more: it is fixed at 50 a second$/],
    ['limits.syncInterval', { limits: { syncInterval: 10 } }, /fixed at 200 ms/],
    ['credits', { credits: true }, /must be an object/],
    ['credits.prices', { credits: {} }, /must be an object/],
    [
      'credits.storedPrices.file.megabyte',
      { credits: { prices: { '*': {} }, storedPrices: { file: { megabyte: -1 } } } },
      /from 0 to/,
    ],
    [
      'credits.storedPrices.files',
      { credits: { prices: { '*': {} }, storedPrices: { files: {} } } },
      /file, container/,
    ],
    [
      'credits.storedPrices.skill.day',
      { credits: { prices: { '*': {} }, storedPrices: { skill: { day: 1 } } } },
      /each, megabyte/,
    ],
    ['credits.prices', { credits: { prices: {} } }, /must have '\*'/],
    ["credits.prices['*'].input", { credits: { prices: { '*': { input: -1 } } } }, /from 0 to/],
    [
      "credits.prices['*'].tokens",
      { credits: { prices: { '*': { tokens: 1 } } } },
      /input, cachedInput, output, image/,
    ],
    ['credits.overdraft', { credits: { prices: { '*': {} }, overdraft: -1 } }, /must be a number/],
    ['credits.threshold', { credits: { prices: { '*': {} }, threshold: 1 } }, /lowThreshold/],
    ['upstreams[0].baseUrl', { upstreams: [{ name: 'a', baseUrl: 'ftp://x' }] }, /http or https/],
    ['upstreams[0].name', { upstreams: [{ name: '', baseUrl: 'http://x' }] }, /non-empty/],
    [
      'upstreams[1].name',
      {
        upstreams: [
          { name: 'a', baseUrl: 'http://x' },
          { name: 'a', baseUrl: 'http://y' },
        ],
      },
      /twice/,
    ],
  ];
  for (const [param, options, says] of refused) {
    it(`refuse ${JSON.stringify(options)}, naming ${param} and the fix`, () => {
      const error = refusal(options);
      expect(error).to.include({ code: 'invalid_options', param });
      expect(error.message).to.match(says);
    });
  }
});

const good: UpstreamOptions = { name: 'one', baseUrl: 'https://api.example/v1' };

function refusalOf(upstream: Record<string, unknown>): string {
  try {
    checkUpstreams([{ ...good, ...upstream } as UpstreamOptions]);
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'invalid_options') return error.param ?? '';
    throw error;
  }
  return 'accepted';
}

describe('the options of an upstream', () => {
  it('are accepted when their values are valid', () => {
    const upstream: Required<UpstreamOptions> = {
      ...good,
      apiKey: 'sk',
      speaks: ['openai', 'anthropic'],
      models: ['gpt-*', 'vendor/m'],
      aliases: { fast: 'vendor/m' },
      weight: 0.5,
      priority: -1,
      headers: { 'X-Org': 'ours', authorization: 'Basic x' },
      forwardHeaders: ['traceparent'],
      timeouts: { connect: 1, firstByte: 2, betweenChunks: 3, total: 4 },
      includeUsage: false,
      maxConcurrency: 1,
      maskErrors: true,
      proxy: 'http://user:pass@proxy.example.com:3128',
    };
    expect(refusalOf(upstream)).to.equal('accepted');
  });

  const refused: [string, Record<string, unknown>][] = [
    ['upstreams[0].speaks', { speaks: 'anthropic' }],
    ['upstreams[0].speaks', { speaks: [] }],
    ['upstreams[0].speaks', { speaks: ['openai', 'gemini'] }],
    ['upstreams[0].keyHeader', { keyHeader: 'x-api-key' }],
    ['upstreams[0].forwardHeaders.X-Api-Key', { forwardHeaders: ['X-Api-Key'] }],
    ['upstreams[0].name', { name: 'with space' }],
    ['upstreams[0].name', { name: undefined }],
    ['upstreams[0].baseUrl', { baseUrl: 'https://api.example/v1#key=1' }],
    ['upstreams[0].baseUrl', { baseUrl: 'https://' }],
    ['upstreams[0].model', { model: 'm' }],
    ['upstreams[0].models', { models: 'gpt-*' }],
    ['upstreams[0].maxConcurrency', { maxConcurrency: 0 }],
    ['upstreams[0].maxConcurrency', { maxConcurrency: 1.5 }],
    ['upstreams[0].maxConcurrency', { maxConcurrency: '10' }],
    ['upstreams[0].models', { models: [''] }],
    ['upstreams[0].aliases', { aliases: ['a'] }],
    ['upstreams[0].aliases.fast', { aliases: { fast: 1 } }],
    ['upstreams[0].weight', { weight: -1 }],
    ['upstreams[0].weight', { weight: Number.NaN }],
    ['upstreams[0].priority', { priority: 'high' }],
    ['upstreams[0].headers.bad name', { headers: { 'bad name': 'x' } }],
    ['upstreams[0].headers.Host', { headers: { Host: 'x' } }],
    ['upstreams[0].headers.content-length', { headers: { 'content-length': '1' } }],
    ['upstreams[0].forwardHeaders.Authorization', { forwardHeaders: ['Authorization'] }],
    ['upstreams[0].forwardHeaders.cookie', { forwardHeaders: ['cookie'] }],
    ['upstreams[0].timeouts.read', { timeouts: { read: 1 } }],
    ['upstreams[0].timeouts.total', { timeouts: { total: 0 } }],
    ['upstreams[0].includeUsage', { includeUsage: 'no' }],
  ];
  for (const [param, options] of refused) {
    it(`are refused with an error that names ${param}: ${JSON.stringify(options)}`, () => {
      expect(refusalOf(options)).to.equal(param);
    });
  }

  it('are refused with what to write instead where there is no such option any more', () => {
    expect(() => checkUpstreams([good, { ...good, name: 'b', keyHeader: 'x-api-key' } as UpstreamOptions]))
      .to.throw(
        GatewayError,
        "upstreams[1].keyHeader: is no option any more: write the key into headers, as { 'x-api-key'",
      )
      .with.property('code', 'invalid_options');
  });

  it('are refused by name where an upstream is no object', () => {
    for (const given of [null, 'https://api.example/v1']) {
      expect(() => checkUpstreams([given as unknown as UpstreamOptions]))
        .to.throw(GatewayError, 'upstreams[0]: must be an object')
        .with.property('code', 'invalid_options');
    }
  });
});

describe('a duration', () => {
  const readable: [string, number][] = [
    ['0', 0],
    ['300ms', 300],
    ['10s', 10_000],
    ['1m', 60_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['1.5s', 1_500],
    ['0.25m', 15_000],
    [' 5 s ', 5_000],
  ];
  for (const [text, ms] of readable) {
    it(`'${text}' is ${ms} ms`, () => expect(parseDuration(text)).to.equal(ms));
  }

  for (const text of [
    '',
    '5',
    '1.5',
    '-1s',
    '+1s',
    '1x',
    '1ms2',
    '1h30m',
    's',
    '1e3ms',
    '.5s',
    '0.5ms',
    '1 0s',
    '9999999999999d',
  ]) {
    it(`'${text}' is refused`, () => expect(parseDuration(text)).to.equal(undefined));
  }

  const written: [number, string][] = [
    [0, '0ms'],
    [300, '300ms'],
    [1_500, '1500ms'],
    [60_000, '1m'],
    [90_000, '90s'],
    [28_800_000, '8h'],
    [86_400_000, '1d'],
  ];
  for (const [ms, text] of written) {
    it(`${ms} ms is written '${text}', which reads as the same`, () => {
      expect(formatDuration(ms)).to.equal(text);
      expect(parseDuration(text)).to.equal(ms);
    });
  }
});

describe("a host's logger", () => {
  it('may be pino, or a child of it, which gets the fields as its own', () => {
    const lines: Record<string, unknown>[] = [];
    const sink = new Writable({
      write(chunk, _encoding, done) {
        lines.push(JSON.parse(String(chunk)));
        done();
      },
    });
    const logger = pino(sink);
    for (const given of [logger, logger.child({ part: 'gateway' })]) {
      faultTolerant(given).warn('an upstream fails', { upstream: 'openai' });
      faultTolerant(given).error('nothing more');
    }
    expect(lines.map(({ msg, level, upstream, part }) => ({ msg, level, upstream, part }))).to.deep.equal([
      { msg: 'an upstream fails', level: 40, upstream: 'openai', part: undefined },
      { msg: 'nothing more', level: 50, upstream: undefined, part: undefined },
      { msg: 'an upstream fails', level: 40, upstream: 'openai', part: 'gateway' },
      { msg: 'nothing more', level: 50, upstream: undefined, part: 'gateway' },
    ]);
  });

  it('gets the message first otherwise', () => {
    const calls: unknown[][] = [];
    const record = (...args: unknown[]) => void calls.push(args);
    faultTolerant({ info: record, warn: record, error: record }).info('ready', { port: 3000 });
    expect(calls).to.deep.equal([['ready', { port: 3000 }]]);
  });
});
