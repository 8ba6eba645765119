import { once } from 'node:events';
import { expect } from 'chai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { WebSocket } from 'ws';
import { openStoredRecords } from '../stored/records.ts';
import { freshDatabase } from '../support/mongo.ts';
import { eventually, until } from '../support/until.ts';
import { realtimeUsage, respond, SocketUpstream } from './socket-upstream.ts';
import { SocketClient, type SocketGateway, startSocketGateway, startSockets } from './support.ts';

describe('a realtime session', () => {
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({
      upstreams: [
        {
          name: 'up',
          baseUrl: upstream.baseUrl,
          apiKey: 'sk-up',
          aliases: { talk: 'gpt-realtime' },
          forwardHeaders: ['openai-safety-identifier'],
        },
      ],
      modelCalls: { exposeUpstream: true },
    });
  });
  afterEach(() => {
    upstream.reset();
    gateway.usage.length = 0;
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
  });

  const open = (query = '?model=talk') => SocketClient.open(`${gateway.url}/realtime${query}`, gateway.key);

  it('of the official client passes both ways, and is charged response by response', async () => {
    upstream.onEvent = ({ type }, socket) => {
      if (type === 'response.create') respond(socket);
    };
    const headers = { 'OpenAI-Safety-Identifier': 'user-1', 'OpenAI-Beta': 'realtime=v1' };
    const client = new OpenAIRealtimeWS({ model: 'talk', options: { ...gateway.trust, headers } }, gateway.secure);
    await once(client.socket, 'open');
    const texts: string[] = [];
    client.on('response.output_text.delta', ({ delta }) => texts.push(delta));
    for (let count = 1; count <= 2; count += 1) {
      client.send({ type: 'response.create' });
      await gateway.charged(count);
    }
    await until(() => texts.length === 2);
    expect(texts).to.deep.equal(['Tagus', 'Tagus']);
    const [handshake] = upstream.handshakes;
    expect(handshake?.url).to.equal('/v1/realtime?model=gpt-realtime');
    expect(handshake?.headers).to.include({
      authorization: 'Bearer sk-up',
      'openai-safety-identifier': 'user-1',
      'openai-beta': 'realtime=v1',
    });
    expect(handshake?.headers).to.not.have.property('sec-websocket-extensions');
    expect(JSON.stringify(handshake?.rawHeaders)).to.not.include(gateway.key);
    for (const record of gateway.usage) {
      expect(record).to.include({
        userId: 'usr_1',
        endpoint: '/realtime',
        model: 'talk',
        upstream: 'up',
        inputTokens: realtimeUsage.input_tokens,
        cachedInputTokens: 8,
        outputTokens: realtimeUsage.output_tokens,
        estimated: false,
        ending: 'complete',
      });
    }
    expect(new Set(gateway.usage.map(({ id }) => id)).size).to.equal(2);
    client.close();
    await once(upstream.socket, 'close');
    const report = () => gateway.gateway.usage?.report('usr_1', { groupBy: ['model'] });
    const { lines: [line] = [] } = (await eventually(report, (counted) => counted?.lines[0]?.requests === 2)) ?? {};
    expect(line).to.include({ model: 'talk', inputTokens: 40, outputTokens: 20 });
  });

  it('may name its key as a subprotocol, which nobody else is shown', async () => {
    const protocols = ['realtime', `openai-insecure-api-key.${gateway.key}`, 'openai-beta.realtime-v1'];
    const socket = new WebSocket(`${gateway.url}/realtime?model=talk`, protocols);
    const [[response]] = await Promise.all([once(socket, 'upgrade'), once(socket, 'open')]);
    expect(socket.protocol).to.equal('realtime');
    expect(JSON.stringify(response.rawHeaders)).to.not.include(gateway.key);
    expect(response.headers).to.include({ 'x-gateway-upstream': 'up' });
    expect(response.headers['x-request-id']).to.match(/^req_/);
    const [handshake] = upstream.handshakes;
    expect(handshake?.headers).to.include({ authorization: 'Bearer sk-up', 'openai-beta': 'realtime=v1' });
    expect(JSON.stringify(handshake?.rawHeaders)).to.not.include(gateway.key);
    socket.close();
    await once(socket, 'close');
  });

  it('is charged for responses that nobody asked for, and for what is transcribed', async () => {
    const client = await open();
    const session = { audio: { input: { transcription: { model: 'whisper-1' } } } };
    client.send({ type: 'session.update', session });
    await upstream.got(1);
    upstream.socket.send(JSON.stringify({ type: 'session.updated', session }));
    const transcription = {
      type: 'conversation.item.input_audio_transcription.completed',
      item_id: 'i',
      transcript: '',
    };
    upstream.socket.send(JSON.stringify({ ...transcription, usage: { type: 'duration', seconds: 2.5 } }));
    respond(upstream.socket);
    const records = await gateway.charged(2);
    expect(records[0]).to.include({ endpoint: '/realtime', model: 'whisper-1', seconds: 2.5, inputTokens: 0 });
    expect(records[1]).to.include({ endpoint: '/realtime', model: 'talk', inputTokens: 20 });
    client.socket.close();
    await client.whenClosed();
  });

  it('takes no model that an upstream has made for another account', async () => {
    const database = await freshDatabase();
    const { records: storedObjects } = openStoredRecords(database.connection);
    for (const id of ['acme/whisper', 'acme/talk']) {
      await storedObjects.add({ kind: 'model', id, userId: 'usr_2', upstream: 'up', model: id });
    }
    const { proxy, url, close } = await startSockets(upstream, { storedObjects }, {});
    const refused = await SocketClient.open(`${url}/realtime?model=acme%2Ftalk`, 'any').catch((error) => error);
    expect(String(refused)).to.include('404');
    const client = await SocketClient.open(`${url}/realtime?model=gpt-realtime`, 'any');
    const transcription = { model: 'acme/whisper' };
    client.send({ type: 'session.update', event_id: 'mine', session: { audio: { input: { transcription } } } });
    const { error } = await client.event('error');
    expect(error).to.include({ code: 'model_not_found', event_id: 'mine' });
    expect(upstream.events).to.deep.equal([]);
    client.socket.close();
    await client.whenClosed();
    await proxy.close();
    close();
    await database.drop();
  });

  it('names only what is of its account, wherever an event does', async () => {
    const client = await open();
    for (const [type, fields, code, param] of [
      [
        'response.create',
        { response: { previous_response_id: 'resp_1' } },
        'response_not_found',
        'response.previous_response_id',
      ],
      [
        'session.update',
        { session: { previous_response_id: 'resp_1' } },
        'response_not_found',
        'session.previous_response_id',
      ],
      [
        'session.update',
        { session: { prompt: { id: 'pmpt_1', variables: { a: { type: 'input_file', file_id: 'file-1' } } } } },
        'file_not_found',
        'session.prompt.variables.a.file_id',
      ],
      [
        'conversation.item.create',
        { item: { type: 'message', role: 'user', content: [{ type: 'input_image', file_id: 'file-1' }] } },
        'file_not_found',
        'item.content[0].file_id',
      ],
    ] as const) {
      client.received.length = 0;
      client.send({ type, ...fields });
      expect((await client.event('error')).error).to.include({ code, param });
    }
    expect(upstream.events).to.deep.equal([]);
    client.socket.close();
    await client.whenClosed();
  });

  it('keeps its model: another one is refused, and the socket stays open', async () => {
    const client = await open();
    client.send({ type: 'session.update', event_id: 'mine', session: { model: 'gpt-expensive' } });
    const { error } = await client.event('error');
    expect(error).to.include({ code: 'invalid_value', param: 'session.model', event_id: 'mine' });
    client.send({ type: 'session.update', session: { model: 'talk' } });
    client.send({ type: 'session.update', session: { model: 'gpt-realtime' } });
    await upstream.got(2);
    expect(upstream.events.map(({ session }) => session.model)).to.deep.equal(['gpt-realtime', 'gpt-realtime']);
    client.socket.close();
    await client.whenClosed();
  });

  it('costs nothing for a response that is refused, or that has failed', async () => {
    const client = await open();
    upstream.onEvent = (_event, socket) => {
      socket.send(JSON.stringify({ type: 'response.created', response: { id: 'resp_f' } }));
      socket.send(JSON.stringify({ type: 'response.done', response: { id: 'resp_f', status: 'failed' } }));
    };
    client.send({ type: 'response.create' });
    const [record] = await gateway.charged(1);
    expect(record).to.include({ inputTokens: 0, outputTokens: 0, ending: 'upstream_failed' });
    upstream.onEvent = (event, socket) =>
      socket.send(JSON.stringify({ type: 'error', event_id: 'x', error: { message: 'no', event_id: event.event_id } }));
    client.send({ type: 'response.create', event_id: 'first' });
    await client.event('error');
    // nothing is awaited any more
    client.socket.close();
    await once(upstream.socket, 'close');
    expect(gateway.usage).to.have.length(1);
  });
});
