import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Counter, Registry } from 'prom-client';
import { createModelGateway } from '../../src/index.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { type LiveGateway, loopbackOptions, newSecretKey, startGateway } from '../support/gateway.ts';
import type { Listening } from '../support/listen.ts';
import { freshDatabase } from '../support/mongo.ts';
import { listenForOperations } from '../support/operations.ts';
import { eventually, until } from '../support/until.ts';
import { events, inTurn, json, reset, ScriptedUpstream } from '../support/upstream.ts';

const answer = json(200, {
  choices: [{}],
  usage: {
    prompt_tokens: 30,
    prompt_tokens_details: { cached_tokens: 10 },
    completion_tokens: 7,
    completion_tokens_details: { reasoning_tokens: 5 },
    total_tokens: 37,
  },
});
const chat = { model: 'canary-model', messages: [{ role: 'user', content: 'Hi' }] };
const low = {
  type: 'credits.low',
  userId: 'usr_1',
  data: { user_id: 'usr_1', credits_remaining: 5, threshold: 10 },
} as const;

describe('The metrics of a gateway', () => {
  let live: LiveGateway;
  let upstream: ScriptedUpstream;
  let receiver: TestReceiver;
  let operations: Listening;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    receiver = await startReceiver(200, 500, 200);
    live = await startGateway({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      retryDelays: [100],
      credits: { prices: { '*': {}, dear: { output: 1 } } },
    });
    operations = await listenForOperations(live.gateway);
  });
  after(async () => {
    await operations.close();
    await live.close();
    await receiver.stop();
    await upstream.close();
  });

  /** The values of one scrape, by name and labels as they are written. */
  async function scrape(): Promise<ReadonlyMap<string, number>> {
    const response = await fetch(`${operations.url}/metrics`);
    expect(response.status).to.equal(200);
    expect(response.headers.get('content-type')).to.match(/^text\/plain; version=0\.0\.4/);
    const lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    return new Map(lines.map((line) => [line.replace(/ \S+$/, ''), Number(line.replace(/^.* /, ''))]));
  }

  /** Resolves when a streamed chat has ended. */
  async function streamed(): Promise<void> {
    const headers = { authorization: `Bearer ${live.key}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ ...chat, stream: true });
    await (await fetch(`${live.url}/v1/chat/completions`, { method: 'POST', headers, body })).text();
  }

  it('count model calls by upstream, their tokens, and what the upstream answered', async () => {
    upstream.script = inTurn(json(503, {}), answer);
    expect((await live.call('POST', '/v1/chat/completions', chat)).status).to.equal(200);
    upstream.script = events([{ choices: [{}] }]);
    await streamed();
    upstream.script = reset();
    expect((await live.call('POST', '/v1/chat/completions', chat)).status).to.equal(502);

    const values = await scrape();
    expect(values.get('gateway_upstream_responses_total{upstream="one",status="5xx"}')).to.equal(1);
    expect(values.get('gateway_upstream_responses_total{upstream="one",status="2xx"}')).to.equal(2);
    expect(values.get('gateway_upstream_failures_total{upstream="one",code="reset"}')).to.equal(3);
    expect(values.get('gateway_upstream_first_byte_seconds_count{upstream="one",status="2xx"}')).to.equal(2);
    expect(values.get('gateway_model_call_duration_seconds_count{upstream="one",ending="complete"}')).to.equal(2);
    expect(values.get('gateway_model_tokens_total{upstream="one",kind="cached_input"}')).to.equal(10);
    expect(values.get('gateway_model_tokens_total{upstream="one",kind="reasoning"}')).to.equal(5);
    expect(values.get('gateway_model_tokens_total{upstream="one",kind="input"}')).to.be.at.least(30);
    expect(values.get('gateway_upstream_calls{upstream="one"}')).to.equal(0);
    expect(values.get('gateway_upstream_calls_waiting{upstream="one"}')).to.equal(0);
    expect(values.get('gateway_upstream_breaker_open{upstream="one"}')).to.equal(0);
    expect(values.get('gateway_http_requests_total{operation="createChatCompletion",status="2xx"}')).to.equal(2);
    expect(values.get('gateway_http_errors_total{code="upstream_disconnected"}')).to.equal(1);
    expect(values.get('gateway_credit_admissions_total{outcome="admitted"}')).to.equal(3);
  });

  it('tell a call whose response has not begun from one that streams', async () => {
    const under = 'gateway_upstream_calls{upstream="one"}';
    const waiting = 'gateway_upstream_calls_waiting{upstream="one"}';
    let begin = () => {};
    let end = () => {};
    upstream.script = (res) => {
      begin = () => void res.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: {}\n\n');
      end = () => void res.end('data: [DONE]\n\n');
    };
    const called = upstream.requests.length;
    const ended = streamed();
    await upstream.received(called + 1);
    const held = await scrape();
    expect([held.get(under), held.get(waiting)]).to.deep.equal([1, 1]);
    begin();
    await until(async () => (await scrape()).get(waiting) === 0);
    expect((await scrape()).get(under)).to.equal(1);
    end();
    await ended;
    await until(async () => (await scrape()).get(under) === 0);
  });

  it('count the calls that credits refuse', async () => {
    const { status } = await live.call('POST', '/v1/chat/completions', { ...chat, model: 'dear' });
    expect(status).to.equal(402);
    const values = await scrape();
    expect(values.get('gateway_credit_admissions_total{outcome="insufficient_credits"}')).to.equal(1);
  });

  it('count refused requests by their error code', async () => {
    expect((await fetch(`${live.url}/v1/webhooks`)).status).to.equal(401);
    expect((await live.call('POST', '/v1/webhooks', {})).status).to.equal(400);
    expect((await live.call('PUT', '/v1/webhooks', {})).status).to.equal(405);
    const values = await scrape();
    expect(values.get('gateway_http_errors_total{code="missing_required_parameter"}')).to.equal(1);
    expect(values.get('gateway_http_errors_total{code="method_not_allowed"}')).to.equal(1);
    expect(values.get('gateway_http_requests_total{operation="none",status="4xx"}')).to.equal(1);
    expect(values.get('gateway_http_requests_total{operation="createWebhook",status="4xx"}')).to.equal(1);
  });

  it('count attempts by outcome, and how late they were', async () => {
    await live.call('POST', '/v1/webhooks', { url: receiver.url, events: ['credits.low'] });
    await live.gateway.publish(low);
    await receiver.count(1);
    await live.gateway.publish(low);
    await receiver.count(3);
    const delivered = 'gateway_delivery_attempts_total{outcome="succeeded",status="2xx",code=""}';
    await until(async () => (await scrape()).get(delivered) === 2);
    // the pool may open a connection just then
    const atRest = ['attempts_held', 'database_connections{state="opening"}', 'database_connection_waits'];
    const values = await eventually(scrape, (found) => atRest.every((name) => found.get(`gateway_${name}`) === 0));
    expect(values.get('gateway_delivery_attempts_total{outcome="failed",status="5xx",code="http_status"}')).to.equal(1);
    expect(values.get('gateway_delivery_attempt_duration_seconds_count{outcome="succeeded"}')).to.equal(2);
    expect(values.get('gateway_delivery_lateness_seconds_count')).to.equal(3);
    expect(values.get('gateway_attempts_held')).to.equal(0);
    expect(values.get('gateway_attempts_limit')).to.equal(200);
    expect(values.get('gateway_fan_out_deliveries_count')).to.equal(2);
    expect(values.get('gateway_fan_out_deliveries_sum')).to.equal(2);
    expect(values.get('gateway_deliveries_insert_size_sum')).to.equal(2);
    expect(values.get('gateway_database_connections{state="idle"}')).to.be.at.least(1);
    expect(values.get('gateway_database_connections{state="opening"}')).to.equal(0);
    expect(values.get('gateway_database_connection_waits')).to.equal(0);
    expect(values.get('gateway_deliveries_due')).to.equal(0);
    expect(values.get('gateway_events_due')).to.equal(0);
    expect(values.get('gateway_database_available')).to.equal(1);
    expect(values.get('gateway_worker_live')).to.equal(1);
    expect(values.get('gateway_sweeps_total{outcome="succeeded"}')).to.be.at.least(1);
    expect(values.get('gateway_sweep_duration_seconds_count')).to.be.at.least(1);
    // the first look after a scrape, within 20 ms, only starts the measuring
    await sleep(200);
    const end = performance.now() + 300;
    while (performance.now() < end);
    await new Promise(setImmediate);
    const blocked = await scrape();
    expect(blocked.get('gateway_event_loop_delay_seconds')).to.be.within(0.05, 60);
    expect(blocked.get('gateway_event_loop_delay_max_seconds')).to.be.within(0.25, 60);
  });

  it('can be merged with those of the host', async () => {
    const own = new Registry();
    new Counter({ name: 'orders_total', help: 'Orders', registers: [own] }).inc();
    const text = await Registry.merge([own, live.gateway.metrics()]).metrics();
    expect(text).to.include('\norders_total 1').and.to.include('gateway_http_requests_total{');
  });

  it('name no account, key, webhook, model or address', async () => {
    const text = await (await fetch(`${operations.url}/metrics`)).text();
    expect(text).to.not.match(/usr_|key_|wh_|dlv_|evt_|req_|127\.0\.0\.1|sk-|canary-model/);
  });

  it('are all in docs/metrics.md', async () => {
    const text = await live.gateway.metrics().metrics();
    const documented = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8');
    for (const [, name] of text.matchAll(/^# TYPE (\S+)/gm)) expect(documented).to.include(`\`${name}\``);
  });

  it('are served with the probes only, and only to GET', async () => {
    expect((await fetch(`${operations.url}/v1/models`)).status).to.equal(404);
    expect((await fetch(`${operations.url}/metrics`, { method: 'POST' })).status).to.equal(404);
    expect(await (await fetch(`${operations.url}/healthz`)).json()).to.deep.equal({ status: 'ok' });
  });
});

describe('An event that is due and unclaimed', () => {
  it('is counted with its age when no process makes attempts', async () => {
    const database = await freshDatabase();
    const idle = await createModelGateway({
      mongo: database.connection,
      secretKeys: [newSecretKey()],
      ...loopbackOptions,
    });
    const operations = await listenForOperations(idle);
    await idle.webhooks.create('usr_1', { url: 'http://127.0.0.1:9/', events: ['credits.low'] });
    await idle.publish(low);
    const values = async () => (await fetch(`${operations.url}/metrics`)).text();
    await until(async () => /^gateway_events_oldest_due_seconds (?!0$)/m.test(await values()));
    expect(await values())
      .to.match(/^gateway_events_due 1$/m)
      .and.to.match(/^gateway_worker_live 0$/m);
    expect((await idle.health()).checks.worker).to.equal('off');
    await operations.close();
    await idle.close();
    await database.drop();
  });
});
