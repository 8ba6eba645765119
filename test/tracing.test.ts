import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-node';
import { expect } from 'chai';
import express from 'express';
import OpenAI from 'openai';
import { createModelGateway, type ModelGateway, scopes } from '../src/index.ts';
import { verifySignature } from '../src/receiver/index.ts';
import { startReceiver, type TestReceiver } from './deliveries/receiver.ts';
import { loopbackOptions, newSecretKey } from './support/gateway.ts';
import { type Listening, listen } from './support/listen.ts';
import { freshDatabase } from './support/mongo.ts';
import { until } from './support/until.ts';
import { events, inTurn, json, reset, ScriptedUpstream } from './support/upstream.ts';

const secret = 'canary-a-long-enough-secret';
const prompt = 'canary-prompt';
const low = {
  type: 'credits.low',
  userId: 'usr_1',
  data: { user_id: 'usr_1', credits_remaining: 5, threshold: 10 },
} as const;
const usage = { prompt_tokens: 30, completion_tokens: 7, total_tokens: 37 };
const traceparentOf = (span: ReadableSpan) => {
  const { traceId, spanId } = span.spanContext();
  return `00-${traceId}-${spanId}-01`;
};

describe('Traces', () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const seen: ReadableSpan[] = [];
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let upstream: ScriptedUpstream;
  let receiver: TestReceiver;
  /** Serves the API, and makes no scheduled attempts. */
  let api: ModelGateway;
  /** Makes them, as another process does. */
  let worker: ModelGateway;
  let plain: Listening;
  let instrumented: Listening;
  let key: string;

  /** The finished spans of a name, in the order in which they began. */
  function named(name: string): ReadableSpan[] {
    const found = exporter.getFinishedSpans().filter((span) => span.name === name);
    return found.sort((a, b) => a.startTime[0] - b.startTime[0] || a.startTime[1] - b.startTime[1]);
  }

  before(async () => {
    database = await freshDatabase();
    upstream = await ScriptedUpstream.start();
    receiver = await startReceiver(500, 200);
    const options = {
      ...loopbackOptions,
      mongo: database.connection,
      secretKeys: [newSecretKey()],
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, apiKey: 'canary-upstream-key' }],
      retryDelays: [20],
    };
    api = await createModelGateway({ ...options, tracing: { propagateToUpstreams: true } });
    worker = await createModelGateway({ ...options, tracing: { propagateToReceivers: true } });
    await worker.start();
    plain = await listen(express().use(api.router));
    // as the HTTP instrumentation of a host does
    const withSpan: express.RequestHandler = (_req, res, next) =>
      trace.getTracer('host').startActiveSpan('host request', { kind: SpanKind.SERVER }, (span) => {
        res.on('finish', () => span.end());
        next();
      });
    instrumented = await listen(express().use(withSpan, worker.router));
    ({ key } = await api.keys.create({ userId: 'usr_1', scopes }));
  });
  afterEach(() => {
    seen.push(...exporter.getFinishedSpans());
    exporter.reset();
    upstream.requests.length = 0;
  });
  after(async () => {
    await Promise.all([plain.close(), instrumented.close()]);
    await Promise.all([api.close(), worker.close()]);
    await receiver.stop();
    await upstream.close();
    await database.drop();
    await provider.shutdown();
    for (const api of [trace, context, propagation]) api.disable();
  });

  const post = (url: string, path: string, body: object, headers = {}) =>
    fetch(url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  const chat = { model: 'gpt-x', messages: [{ role: 'user' as const, content: prompt }] };

  it('are neither sent nor stored without an SDK', async () => {
    upstream.script = json(200, { choices: [{}] });
    expect((await post(plain.url, '/v1/chat/completions', chat)).status).to.equal(200);
    expect(upstream.requests[0]?.headers).to.not.have.property('traceparent');
    const { id } = await api.publish(low);
    const stored = await database.connection.collection<{ _id: string }>('gateway_events').findOne({ _id: id });
    expect(stored).to.not.have.property('traceparent');
  });

  describe('with an SDK', () => {
    before(() => provider.register());

    it('show a streamed chat from the request to its end, with each try at the upstream', async () => {
      const chunk = { choices: [{ index: 0, delta: { content: 'Hi' } }] };
      upstream.script = inTurn(json(503, {}), events([chunk, { choices: [], usage }]));
      const client = new OpenAI({ baseURL: `${plain.url}/v1`, apiKey: key, maxRetries: 0 });
      // what a client claims is no parent
      const headers = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` };
      const stream = await client.chat.completions.create({ ...chat, stream: true }, { query: { q: prompt }, headers });
      for await (const _ of stream);
      await until(() => named('POST /v1/chat/completions').length === 1);

      const [server] = named('POST /v1/chat/completions') as [ReadableSpan];
      expect(server.kind).to.equal(SpanKind.SERVER);
      expect(server.parentSpanContext).to.equal(undefined);
      expect(server.status.code).to.equal(SpanStatusCode.UNSET);
      expect(server.attributes).to.deep.include({
        'http.request.method': 'POST',
        'http.route': '/v1/chat/completions',
        'http.response.status_code': 200,
        'model_gateway.operation': 'createChatCompletion',
        'model_gateway.account.id': 'usr_1',
      });
      const [failed, answered] = named('POST /chat/completions') as [ReadableSpan, ReadableSpan];
      for (const span of [failed, answered]) {
        expect(span.kind).to.equal(SpanKind.CLIENT);
        expect(span.parentSpanContext?.spanId).to.equal(server.spanContext().spanId);
      }
      expect(failed.status.code).to.equal(SpanStatusCode.ERROR);
      expect(failed.attributes).to.include({ 'http.response.status_code': 503, 'error.type': '503' });
      expect(answered.status.code).to.equal(SpanStatusCode.UNSET);
      expect(answered.attributes).to.include({
        'http.response.status_code': 200,
        'server.address': '127.0.0.1',
        'gen_ai.operation.name': 'chat',
        'gen_ai.request.model': 'gpt-x',
        'gen_ai.usage.input_tokens': 30,
        'gen_ai.usage.output_tokens': 7,
        'model_gateway.upstream': 'one',
      });
      expect(upstream.requests.map(({ headers: sent }) => sent.traceparent)).to.deep.equal(
        [failed, answered].map(traceparentOf),
      );
    });

    it('mark a failed call as an error, but not a mistake of the client', async () => {
      upstream.script = reset();
      expect((await post(plain.url, '/v1/chat/completions', chat)).status).to.equal(502);
      expect((await post(plain.url, '/v1/chat/completions', {})).status).to.equal(400);
      await until(() => named('POST /v1/chat/completions').length === 2);
      const [broken, refused] = named('POST /v1/chat/completions') as [ReadableSpan, ReadableSpan];
      expect(broken.status.code).to.equal(SpanStatusCode.ERROR);
      expect(broken.attributes).to.include({ 'error.type': 'upstream_disconnected' });
      expect(refused.status.code).to.equal(SpanStatusCode.UNSET);
      expect(refused.attributes).to.include({ 'model_gateway.error.code': 'missing_required_parameter' });
      const tries = named('POST /chat/completions');
      expect(tries.map(({ status, attributes }) => [status.code, attributes['error.type']])).to.deep.equal(
        Array(3).fill([SpanStatusCode.ERROR, 'reset']),
      );
    });

    it("continue the span of the host's instrumentation, and are not sent to upstreams unless that is set", async () => {
      upstream.script = json(200, { choices: [{}], usage });
      expect((await post(instrumented.url, '/v1/chat/completions', chat)).status).to.equal(200);
      await until(() => named('host request').length === 1);
      const [host] = named('host request') as [ReadableSpan];
      expect(named('POST /v1/chat/completions')).to.deep.equal([]);
      const [call] = named('POST /chat/completions') as [ReadableSpan];
      expect(call.parentSpanContext?.spanId).to.equal(host.spanContext().spanId);
      expect(upstream.requests[0]?.headers).to.not.have.property('traceparent');
    });

    it('link each attempt, in another process, to the span that published the event', async () => {
      const url = `${receiver.url}?token=${secret}`;
      const { id: webhookId } = await api.webhooks.create('usr_1', { url, events: ['credits.low'], secret });
      const { id } = await trace.getTracer('host').startActiveSpan('checkout', async (span) => {
        const published = await api.publish(low);
        span.end();
        return published;
      });
      // an event of a test before this one may be fanned out only now
      const fanOuts = () =>
        named('fan out credits.low').filter((span) => span.attributes['messaging.message.id'] === id);
      await until(() => named('deliver credits.low').length === 2 && fanOuts().length > 0);
      const [checkout] = named('checkout') as [ReadableSpan];
      const [publishing] = named('publish credits.low') as [ReadableSpan];
      const [fanOut] = fanOuts() as [ReadableSpan];
      expect(publishing.kind).to.equal(SpanKind.PRODUCER);
      expect(publishing.parentSpanContext?.spanId).to.equal(checkout.spanContext().spanId);
      expect(publishing.attributes).to.include({ 'messaging.message.id': id, 'model_gateway.account.id': 'usr_1' });
      expect(fanOut.parentSpanContext?.spanId).to.equal(publishing.spanContext().spanId);
      expect(fanOut.attributes).to.include({ 'messaging.batch.message_count': 1 });

      const attempts = named('deliver credits.low');
      for (const [i, { kind, parentSpanContext, links, attributes }] of attempts.entries()) {
        expect(kind).to.equal(SpanKind.CLIENT);
        expect(parentSpanContext).to.equal(undefined);
        expect(links.map((link) => link.context.spanId)).to.deep.equal([publishing.spanContext().spanId]);
        expect(attributes).to.include({
          'messaging.message.id': id,
          'model_gateway.webhook.id': webhookId,
          'model_gateway.delivery.attempt': i + 1,
          'http.response.status_code': [500, 200][i],
        });
      }
      expect(attempts.map(({ status }) => status.code)).to.deep.equal([SpanStatusCode.ERROR, SpanStatusCode.UNSET]);
      expect(attempts[0]?.attributes['error.type']).to.equal('500');
      const sent = receiver.received.slice(-2);
      expect(sent.map(({ headers }) => headers.traceparent)).to.deep.equal(attempts.map(traceparentOf));
      for (const { body, headers } of sent) {
        expect(verifySignature(body, String(headers['x-service-signature']), secret)).to.equal(true);
      }
    });

    it('link a resend as well, and are not sent to receivers unless that is set', async () => {
      const [delivery] = (await api.deliveries.list('usr_1', { limit: 1 })).deliveries;
      const response = await post(plain.url, `/v1/deliveries/${delivery?.id}/resend`, {});
      expect(response.status).to.equal(200);
      await until(() => named('deliver credits.low').length === 1);
      const [attempt] = named('deliver credits.low') as [ReadableSpan];
      expect(attempt.links).to.have.length(1);
      expect(attempt.attributes).to.not.have.property('model_gateway.delivery.attempt');
      expect(receiver.received.at(-1)?.headers).to.not.have.property('traceparent');
    });

    it('mark a refused publication as an error', async () => {
      const failed = await api.publish({ ...low, data: { secret } } as never).catch((error) => error);
      expect(failed).to.have.property('code', 'invalid_event_data');
      const [publishing] = named('publish credits.low') as [ReadableSpan];
      expect(publishing.status).to.deep.equal({ code: SpanStatusCode.ERROR });
      expect(publishing.attributes).to.include({ 'error.type': 'invalid_event_data' });
    });

    it('contain no key, secret, body, query or URL', () => {
      expect(seen.length).to.be.above(10);
      const text = JSON.stringify(
        seen.map(({ name, attributes, events: noted, links, status }) => [name, attributes, noted, links, status]),
      );
      for (const hidden of [key, key.slice(-43), 'canary', 'http://', receiver.url.slice(-6)]) {
        expect(text).to.not.include(hidden);
      }
    });
  });
});
