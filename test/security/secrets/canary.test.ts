import { expect } from 'chai';
import {
  credentialsInPublish,
  databasePassword,
  hostToken,
  inModelCall,
  inWebhookUrl,
  oldSealingKey,
  rotated,
  sealingKey,
  secret,
  strangersToken,
  upstreamKey,
} from './canaries.ts';
import { runEverything } from './everything.ts';
import { createLeakScanner } from './leak-scanner.ts';

describe('secrets, while the whole product runs and fails', function () {
  // half a minute, and more on a busy machine
  this.timeout(240_000);
  const scanner = createLeakScanner();
  let run: Awaited<ReturnType<typeof runEverything>>;

  before(async () => {
    run = await runEverything(scanner);
  });
  after(() => run.close());

  it('are searched for while requests succeed and fail in every way', () => {
    expect([...run.statuses.keys()]).to.include.members([200, 201, 400, 401, 404, 405, 415, 500, 502]);
    expect([...run.errors]).to.include.members(['invalid_event_data', 'unknown_event_type', 'publish_unconfirmed']);
    expect([...run.errors]).to.include.members(['secret_unreadable', 'invalid_options']);
    expect(run.received).to.be.above(10);
    expect(run.relayed).to.be.above(10);
    const places = new Set(scanner.records.map(({ where }) => where));
    expect([...places]).to.include.members([
      'log',
      'stand-alone log',
      'response',
      'error',
      'receiver',
      'upstream',
      'database gateway_webhooks',
      'database gateway_events',
      'database gateway_deliveries',
      'database gateway_keys',
      'database gateway_jobs',
      'operator',
      'probes',
      'metrics',
      'doctor',
    ]);
  });

  it('are searched for in the log lines of requests and attempts', () => {
    const lines = scanner.records.filter(({ where }) => where === 'stand-alone log').map(({ text }) => text);
    for (const part of ['"operation":"createChatCompletion"', '"msg":"delivery attempt"', '"upstream":"up"']) {
      expect(lines.some((line) => line.includes(part))).to.equal(true, part);
    }
  });

  it('are searched for in what doctor says of an upstream that refuses the key, and of a database that it cannot reach', () => {
    const lines = scanner.records.filter(({ where }) => where === 'doctor').map(({ text }) => text);
    for (const part of ['answers 401', 'connect_refused', 'the database cannot be reached', 'SECRET_KEYS']) {
      expect(lines.some((line) => line.includes(part))).to.equal(true, part);
    }
  });

  const canaries: readonly [name: string, value: () => string, allowed?: RegExp][] = [
    ["a webhook's secret", () => secret],
    ['a secret that was rotated in', () => rotated],
    ['the key that seals', () => sealingKey],
    ['the key that sealed before', () => oldSealingKey],
    ["the database's password", () => databasePassword],
    ["the upstream's key", () => upstreamKey, /^upstream$/],
    ['an API key', () => run.apiKey, /^creation of the key$/],
    ["an API key's secret part", () => run.apiKey.slice(-43), /^creation of the key$/],
    ["a stranger's Authorization header", () => strangersToken],
    ["a host's own credential", () => hostToken],
    ['what a refused event held', () => credentialsInPublish],
    ['the query and the prompt of a model call', () => inModelCall, /^upstream$/],
    ["the query of a webhook's URL", () => inWebhookUrl, /^(response|operator|database gateway_webhooks)$/],
  ];
  for (const [name, value, allowed] of canaries) {
    it(`do not appear in plain text where they do not belong: ${name}`, () => {
      expect(scanner.places(value()).filter((place) => !allowed?.test(place))).to.deep.equal([]);
    });
  }

  it('are found where they belong: the upstream gets its key, and the creation of an API key shows it', () => {
    expect(scanner.places(upstreamKey)).to.deep.equal(['upstream']);
    expect(scanner.places(run.apiKey)).to.deep.equal(['creation of the key']);
  });

  for (const [how, hide] of [
    ['in the middle of a text', (text: string) => `x ${text} y`],
    ['in base64', (text: string) => Buffer.from(`Basic user:${text}`).toString('base64')],
    ['in hexadecimal', (text: string) => Buffer.from(text).toString('hex')],
    ['deep in an error', (text: string) => new Error('x', { cause: { config: { headers: { authorization: text } } } })],
    ['in bytes', (text: string) => Buffer.from(`x${text}y`)],
  ] as const) {
    it(`are found by the search ${how}`, () => {
      const other = createLeakScanner();
      other.saw('here', hide(secret));
      expect(other.places(secret)).to.deep.equal(['here']);
    });
  }
});
