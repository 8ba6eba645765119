import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { expect } from 'chai';
import type { WebSocket } from 'ws';
import { answerResponse, respond, SocketUpstream } from './socket-upstream.ts';
import { SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

const secret = 'org-canary quota used up';

/** Answers with a response of each endpoint that fails. */
function fail(path: string, socket: WebSocket): void {
  const error = { type: 'server_error', code: 'server_error', message: secret };
  const send = (type: string, failed: object) =>
    socket.send(JSON.stringify({ type, event_id: 'e1', response: { id: 'resp_failed', status: 'failed', ...failed } }));
  socket.send(JSON.stringify({ type: 'response.created', response: { id: 'resp_failed', status: 'in_progress' } }));
  if (path === '/realtime') send('response.done', { status_details: { type: 'failed', error } });
  else send('response.failed', { error });
}

describe('a response on a WebSocket', () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const warnings: { readonly message: string; readonly fields: unknown }[] = [];
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  before(async () => {
    provider.register();
    upstream = await SocketUpstream.start();
    const ignore = () => {};
    const warn = (message: string, fields?: unknown) => void warnings.push({ message, fields });
    gateway = await startSocketGateway({
      upstreams: [
        { name: 'masked', baseUrl: upstream.baseUrl, models: ['masked'], maskErrors: true },
        { name: 'open', baseUrl: upstream.baseUrl, models: ['open'], aliases: { nice: 'open' } },
      ],
      logger: { info: ignore, warn, error: ignore },
    });
  });
  beforeEach(() => {
    upstream.reset();
    exporter.reset();
    warnings.length = 0;
    gateway.usage.length = 0;
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
    await provider.shutdown();
    for (const api of [trace, context, propagation]) api.disable();
  });

  const open = (path: string, model: string) =>
    SocketClient.open(`${gateway.url}${path}${path === '/realtime' ? `?model=${model}` : ''}`, gateway.key);
  const create = (model: string) => ({ type: 'response.create', event_id: 'mine', model, input: 'Name a river' });
  const close = async (client: SocketClient) => {
    client.socket.close();
    await client.whenClosed();
  };
  const samples = async () => (await gateway.gateway.metrics().metrics()).split('\n');

  for (const path of ['/realtime', '/responses']) {
    describe(`at ${path}`, () => {
      it('has a span of its own, with what it has used, and is counted as an answer of its upstream', async () => {
        upstream.onEvent = (_event, socket) =>
          path === '/realtime' ? respond(socket) : void answerResponse(socket, 'open');
        const client = await open(path, 'nice');
        const before = (await samples()).find((line) => /responses_total\{.*"open".*"2xx"/.test(line));
        client.send(create('nice'));
        const [record] = await gateway.charged(1);
        const [span] = exporter.getFinishedSpans().filter(({ name }) => name === `response ${path}`);
        expect(span?.kind).to.equal(SpanKind.CLIENT);
        expect(span?.attributes).to.include({
          'network.protocol.name': 'websocket',
          'gen_ai.operation.name': 'chat',
          'gen_ai.request.model': 'open',
          'gen_ai.usage.input_tokens': record?.inputTokens,
          'gen_ai.usage.output_tokens': record?.outputTokens,
          'model_gateway.upstream': 'open',
          'model_gateway.account.id': 'usr_1',
          'model_gateway.request.id': record?.requestId,
        });
        expect(span?.status.code).to.equal(SpanStatusCode.UNSET);
        const after = (await samples()).find((line) => /responses_total\{.*"open".*"2xx"/.test(line));
        expect(Number(after?.split(' ').pop())).to.equal(Number(before?.split(' ').pop() ?? 0) + 1);
        await close(client);
      });

      it('that fails marks its span, and is counted as a failure of its upstream', async () => {
        upstream.onEvent = (_event, socket) => fail(path, socket);
        const client = await open(path, 'open');
        client.send(create('open'));
        await gateway.charged(1);
        const [span] = exporter.getFinishedSpans().filter(({ name }) => name === `response ${path}`);
        expect(span?.status.code).to.equal(SpanStatusCode.ERROR);
        expect(JSON.stringify(span?.attributes)).to.not.include('canary');
        const failures = (await samples()).filter((line) => /failures_total\{.*"open".*error_in_answer/.test(line));
        expect(failures).to.have.length(1);
        await close(client);
      });

      it('that fails shows what its upstream says, unless that has maskErrors: then the log has it', async () => {
        upstream.onEvent = (_event, socket) => fail(path, socket);
        for (const [model, isShown] of [
          ['open', true],
          ['masked', false],
        ] as const) {
          const client = await open(path, model);
          client.send(create(model));
          const { response } = await client.event(path === '/realtime' ? 'response.done' : 'response.failed');
          expect(response).to.include({ id: 'resp_failed', status: 'failed' });
          expect(JSON.stringify(response).includes('canary'), model).to.equal(isShown);
          const said = response.error ?? response.status_details.error;
          expect(said.code).to.equal(isShown ? 'server_error' : 'upstream_error');
          expect(JSON.stringify(warnings).includes('canary'), model).to.equal(!isShown);
          await close(client);
        }
      });

      it('that is refused is told as of an upstream with maskErrors: what is wrong with the request, and nothing else', async () => {
        for (const [error, code] of [
          [
            { status: 429, error: { code: 'insufficient_quota', message: secret, event_id: 'mine' } },
            'upstream_rate_limited',
          ],
          [{ error: { type: 'server_error', message: secret, event_id: 'mine' } }, 'upstream_error'],
          [{ error: { type: 'invalid_request_error', code: 'bad', message: 'no', event_id: 'mine' } }, 'bad'],
        ] as const) {
          upstream.onEvent = (_event, socket) => socket.send(JSON.stringify({ type: 'error', ...error }));
          const client = await open(path, 'masked');
          client.send(create('masked'));
          const shown = await client.event('error');
          expect(shown.error).to.include({ code, event_id: 'mine' });
          expect(JSON.stringify(shown)).to.not.include('canary');
          await close(client);
        }
      });
    });
  }

  it('of an upstream with maskErrors that closes its side is closed without its reason', async () => {
    for (const [model, reason] of [
      ['open', secret],
      ['masked', ''],
    ] as const) {
      const client = await open('/realtime', model);
      upstream.socket.close(1011, secret);
      expect(await client.whenClosed()).to.deep.equal({ code: 1011, reason });
    }
    expect(JSON.stringify(warnings)).to.include(secret);
  });
});
