import { once } from 'node:events';
import { expect } from 'chai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { until } from '../support/until.ts';
import { answer, answerResponse, SocketUpstream } from './socket-upstream.ts';
import { SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

describe('responses over a WebSocket', () => {
  let one: SocketUpstream;
  let two: SocketUpstream;
  let gateway: SocketGateway;
  before(async () => {
    [one, two] = await Promise.all([SocketUpstream.start(), SocketUpstream.start()]);
    gateway = await startSocketGateway({
      upstreams: [
        { name: 'one', baseUrl: one.baseUrl, apiKey: 'sk-one', models: ['gpt-*'], aliases: { fast: 'gpt-mini' } },
        { name: 'two', baseUrl: two.baseUrl, apiKey: 'sk-two', models: ['claude'], priority: 1 },
      ],
    });
  });
  beforeEach(() => {
    for (const upstream of [one, two]) {
      upstream.reset();
      upstream.onEvent = ({ type, model }, socket) => {
        if (type === 'response.create') answerResponse(socket, model);
      };
    }
    gateway.usage.length = 0;
  });
  after(async () => {
    await gateway.close();
    await Promise.all([one.close(), two.close()]);
  });

  const open = (key = gateway.key) => SocketClient.open(`${gateway.url}/responses`, key);

  it('of the official client are answered, charged and stored as those over HTTP', async () => {
    const client = new ResponsesWS(gateway.plain);
    const done = new Promise<string>((resolve) =>
      client.on('response.completed', ({ response }) => resolve(response.id)),
    );
    client.send({ type: 'response.create', model: 'fast', input: 'Name a river', max_output_tokens: 50 });
    const id = await done;
    expect(one.received[0]?.data.toString()).to.equal(
      '{"type":"response.create","model":"gpt-mini","input":"Name a river","max_output_tokens":50}',
    );
    expect(one.handshakes[0]?.headers.authorization).to.equal('Bearer sk-one');
    const [record] = await gateway.charged(1);
    const amounts = { inputTokens: 11, cachedInputTokens: 2, outputTokens: 7, estimated: false };
    expect(record).to.include({
      endpoint: '/responses',
      model: 'fast',
      upstream: 'one',
      ending: 'complete',
      ...amounts,
    });
    const next = new Promise((resolve) => client.on('response.completed', resolve));
    client.send({ type: 'response.create', model: 'fast', input: 'And another?', previous_response_id: id });
    await next;
    await gateway.charged(2);
    client.close();
    await once(one.socket, 'close');
    // the item that the answer had is the account's, and no other's
    const item = id.replace('resp', 'msg');
    const mine = await open();
    mine.send({ type: 'response.create', model: 'fast', input: [{ type: 'item_reference', id: item }] });
    await mine.event('response.completed');
    mine.socket.close();
    await mine.whenClosed();
  });

  it('continue only what is of the same account', async () => {
    const mine = await open();
    mine.send({ type: 'response.create', model: 'fast', input: 'Name a river' });
    const { response } = await mine.event('response.completed');
    const stranger = await open(await gateway.newKey({ userId: 'usr_2' }));
    const asked = one.received.length;
    for (const [event, code, param] of [
      [{ previous_response_id: response.id }, 'response_not_found', 'previous_response_id'],
      [{ conversation: 'conv_1' }, 'conversation_not_found', 'conversation'],
      [{ input: [{ type: 'item_reference', id: response.output[0].id }] }, 'item_not_found', 'input[0].id'],
      [
        { tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }] },
        'vector_store_not_found',
        'tools[0].vector_store_ids[0]',
      ],
      // deeper in it, where another reader may look
      [{ request: { previous_response_id: response.id } }, 'response_not_found', 'request.previous_response_id'],
      [{ session: { Previous_Response_Id: response.id } }, 'response_not_found', 'session.Previous_Response_Id'],
    ] as const) {
      stranger.received.length = 0;
      stranger.send({ type: 'response.create', model: 'fast', input: 'Go on', ...event });
      const { error, status } = await stranger.event('error');
      expect([status, error.code, error.param]).to.deep.equal([404, code, param]);
      // whatever the event is called
      stranger.received.length = 0;
      stranger.send({ type: 'response.other', ...event });
      expect((await stranger.event('error')).error.code).to.equal(code);
    }
    for (const nested of [{ conversation: 'conv_1' }, { previous_response_id: response.id }, {}, 'x']) {
      stranger.received.length = 0;
      stranger.send({ type: 'response.create', model: 'fast', input: 'Go on', response: nested });
      const { error, status } = await stranger.event('error');
      expect([status, error.code, error.param]).to.deep.equal([400, 'invalid_value', 'response']);
    }
    expect(one.received.length).to.equal(asked);
    stranger.send({ type: 'response.create', model: 'fast', input: 'Name a lake', response: null });
    await stranger.event('response.completed');
    for (const client of [mine, stranger]) {
      client.socket.close();
      await client.whenClosed();
    }
  });

  it('that are not stored continue on their own connection, and on no other', async () => {
    const client = await open();
    client.send({ type: 'response.create', model: 'fast', store: false, input: 'Name a river' });
    const { response } = await client.event('response.completed');
    client.send({
      type: 'response.create',
      model: 'fast',
      store: false,
      previous_response_id: response.id,
      input: '?',
    });
    await client.event('response.completed', 2);
    const other = await open();
    other.send({ type: 'response.create', model: 'fast', previous_response_id: response.id, input: '?' });
    expect((await other.event('error')).error.code).to.equal('response_not_found');
    for (const each of [client, other]) {
      each.socket.close();
      await each.whenClosed();
    }
  });

  it('go to the upstream that serves their model, one after the other', async () => {
    const client = await open();
    for (const [count, model] of ['fast', 'claude', 'fast'].entries()) {
      client.send({ type: 'response.create', model, input: 'Name a river' });
      await client.event('response.completed', count + 1);
    }
    expect(one.events.map(({ model }) => model)).to.deep.equal(['gpt-mini', 'gpt-mini']);
    expect(two.events.map(({ model }) => model)).to.deep.equal(['claude']);
    expect((await gateway.charged(3)).map(({ upstream }) => upstream)).to.deep.equal(['one', 'two', 'one']);
    const { response } = client.events.findLast(({ response }) => response?.model === 'claude');
    client.send({ type: 'response.other', previous_response_id: response.id });
    expect((await client.event('error')).error.message).to.include('another provider');
    client.received.length = 0;
    two.refuse = answer('404 Not Found', '');
    client.send({ type: 'response.create', model: 'claude', input: 'Name a river' });
    expect((await client.event('error')).error.code).to.equal('upstream_error');
    client.send({ type: 'response.create', model: 'fast', input: 'Name a river' });
    await client.event('response.completed');
    client.socket.close();
    await client.whenClosed();
  });

  it('have the time of the upstream that they go to, however much the one before has', async () => {
    const live = await startSocketGateway({
      upstreams: [
        { name: 'one', baseUrl: one.baseUrl, models: ['gpt-*'] },
        { name: 'two', baseUrl: two.baseUrl, models: ['claude'], priority: 1, timeouts: { firstByte: 300 } },
      ],
    });
    two.onEvent = () => {};
    const client = await SocketClient.open(`${live.url}/responses`, live.key);
    client.send({ type: 'response.create', model: 'claude', input: 'Name a river' });
    expect((await client.event('error')).error.code).to.equal('upstream_timeout');
    expect((await client.whenClosed()).code).to.equal(1011);
    await live.close();
  });

  it('are refused one by one, and the socket stays open', async () => {
    one.onEvent = () => {};
    const client = await open(await gateway.newKey({ models: ['fast'] }));
    for (const [event, code] of [
      [{ model: 'claude' }, 'model_not_allowed'],
      [{}, 'model_not_allowed'],
      [{ model: 'fast', background: true }, 'invalid_value'],
      [{ model: 'fast'.repeat(100) }, 'invalid_value'],
    ] as const) {
      client.received.length = 0;
      client.send({ type: 'response.create', event_id: 'ev', input: 'Name a river', ...event });
      expect((await client.event('error')).error).to.include({ code, event_id: 'ev' });
    }
    client.send({ type: 'response.create', model: 'fast', input: 'Name a river' });
    await one.got(1);
    client.received.length = 0;
    client.send({ type: 'response.create', model: 'fast', input: 'Name a river' });
    expect((await client.event('error')).error.code).to.equal('response_in_progress');
    answerResponse(one.socket, 'gpt-mini');
    await client.event('response.completed');
    client.socket.close();
    await client.whenClosed();
  });

  it('that break off with an error cost nothing, and the next one follows', async () => {
    one.onEvent = (_event, socket) => {
      socket.send('{"type":"response.created","response":{"id":"resp_broken"}}');
      socket.send('{"type":"error","error":{"code":"server_error"}}');
    };
    const client = await open();
    client.send({ type: 'response.create', model: 'fast', store: false, input: 'Name a river' });
    await client.event('error');
    one.onEvent = ({ model }, socket) => void answerResponse(socket, model);
    client.send({ type: 'response.create', model: 'fast', input: 'Name a river' });
    await client.event('response.completed');
    const records = await gateway.charged(2);
    expect(records.map(({ outputTokens, ending }) => [outputTokens, ending])).to.deep.equal([
      [0, 'upstream_failed'],
      [7, 'complete'],
    ]);
    client.socket.close();
    await client.whenClosed();
  });

  it('whose id no account could own end the socket, and are charged by what was seen of them', async () => {
    one.onEvent = (_event, socket) => {
      const usage = { input_tokens: 1_111, output_tokens: 777, total_tokens: 1_888 };
      const response = { id: 'not an id !', status: 'completed', output: [{ id: 'msg_1', type: 'message' }], usage };
      socket.send(JSON.stringify({ type: 'response.created', response: { id: response.id } }));
      socket.send(JSON.stringify({ type: 'response.completed', response }));
    };
    const client = await open();
    client.send({ type: 'response.create', model: 'fast', input: 'Name a river' });
    expect((await client.event('error')).error.code).to.equal('upstream_invalid_response');
    expect((await client.whenClosed()).code).to.equal(1011);
    const [record] = await gateway.charged(1);
    expect(record).to.include({ ending: 'upstream_failed', estimated: true });
    expect(record?.outputTokens).to.be.below(777);
  });

  it('that their upstream refuses cost nothing', async () => {
    one.onEvent = (_event, socket) => socket.send('{"type":"error","error":{"code":"previous_response_not_found"}}');
    const client = await open();
    client.send({ type: 'response.create', model: 'fast', input: 'Name a river' });
    await client.event('error');
    one.onEvent = ({ model }, socket) => void answerResponse(socket, model);
    client.send({ type: 'response.create', model: 'fast', input: 'Name a river' });
    await client.event('response.completed');
    await until(() => gateway.usage.length > 0);
    expect(gateway.usage).to.have.length(1);
    client.socket.close();
    await client.whenClosed();
  });
});
