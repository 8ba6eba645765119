import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { expect } from 'chai';
import OpenAI from 'openai';
import { until } from '../support/until.ts';
import { chunks, json, reset, stall } from '../support/upstream.ts';
import { event, failure, responseOf, type StoredSetup, startStored, streamOf } from './support.ts';

describe('responses', () => {
  let setup: StoredSetup;
  const records: object[] = [];

  before(async () => {
    setup = await startStored({ onUsage: (record) => void records.push(record) });
  });

  after(() => setup.close());

  /** Makes a response that an upstream keeps for `usr_1`. */
  async function create(id: string, upstream = setup.one, model = 'm') {
    upstream.script = json(200, responseOf(id));
    return setup.client.responses.create({ model, input: 'Hi' });
  }

  async function send(method: string, path: string, body?: string, key = setup.gateway.key) {
    const response = await fetch(`${setup.gateway.url}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body }),
    });
    return { status: response.status, text: await response.text() };
  }

  it('are created with every byte unchanged both ways', async () => {
    const sent = '{ "model":"m" , "input":"Hi", "seed":9223372036854775807,"x":1,"x":2, "u":"\\ud83d\\ude00" }';
    const answer = Buffer.from('{"id" : "resp_bytes",  "object":"response","n":18446744073709551615,"é":"😀"}\n');
    setup.one.script = json(200, answer);
    const { text } = await send('POST', '/responses?include=a&include=b', sent);
    expect(text).to.equal(answer.toString());
    expect(setup.one.last.body.toString()).to.equal(sent);
    expect(setup.one.last.path).to.equal('/v1/responses?include=a&include=b');
  });

  it('are metered by the usage of their upstream, with the cached tokens and those of reasoning', async () => {
    records.length = 0;
    const answer = await create('resp_metered');
    expect(answer.output_text).to.equal('Hi');
    await until(() => records.length === 1);
    expect(records[0]).to.include({
      endpoint: '/responses',
      model: 'm',
      inputTokens: 30,
      cachedInputTokens: 10,
      outputTokens: 20,
      reasoningTokens: 15,
      estimated: false,
      ending: 'complete',
    });
  });

  it('are streamed, every event as it came, and metered once', async () => {
    records.length = 0;
    const parts = streamOf('resp_streamed');
    setup.one.script = chunks(parts.flatMap((part) => [part.slice(0, 30), part.slice(30)]));
    const { text } = await send('POST', '/responses', '{"model":"m","input":"Hi","stream":true}');
    expect(text).to.equal(parts.join(''));
    await until(() => records.length === 1);
    expect(records[0]).to.include({ inputTokens: 30, outputTokens: 20, estimated: false, ending: 'complete' });
    setup.one.script = json(200, responseOf('resp_streamed'));
    expect((await setup.client.responses.retrieve('resp_streamed')).id).to.equal('resp_streamed');
  });

  it('are stored before the client gets their id in a stream', async () => {
    const [first = ''] = streamOf('resp_early');
    setup.one.script = stall(`: hello\n\n${first}`);
    const stream = await setup.client.responses.create({ model: 'm', input: 'Hi', stream: true });
    for await (const created of stream) {
      expect(created.type).to.equal('response.created');
      break;
    }
    setup.one.script = json(200, responseOf('resp_early'));
    expect((await setup.client.responses.retrieve('resp_early')).id).to.equal('resp_early');
  });

  it('end with response.failed and the reason when their stream breaks off, or ends without its last event', async () => {
    const [created = '', delta = ''] = streamOf('resp_broken');
    for (const script of [reset(created + delta), chunks([created, delta])]) {
      setup.one.script = script;
      const stream = await setup.client.responses.create({ model: 'm', input: 'Hi', stream: true });
      const shown: OpenAI.Responses.ResponseStreamEvent[] = [];
      for await (const part of stream) shown.push(part);
      expect(shown.map(({ type }) => type)).to.deep.equal([
        'response.created',
        'response.output_text.delta',
        'response.failed',
      ]);
      const last = shown.at(-1);
      if (last?.type !== 'response.failed') throw new Error('the stream should have failed');
      expect(last.sequence_number).to.equal(2);
      expect(last.response).to.include({ id: 'resp_broken', status: 'failed' });
      expect(last.response.error?.code).to.equal('upstream_disconnected');
      expect(last.response.error?.message).to.match(/closed the connection before its answer was complete/);
    }
  });

  it('throw in the official client when their stream breaks off before it has shown them', async () => {
    setup.one.script = reset(': hello\n\n');
    const stream = await setup.client.responses.create({ model: 'm', input: 'Hi', stream: true });
    const thrown = await failure(
      (async () => {
        for await (const { type } of stream) throw new Error(type);
      })(),
    );
    expect(thrown).to.be.instanceOf(OpenAI.APIError);
    expect(thrown.code).to.equal('upstream_disconnected');
  });

  for (const type of ['response.completed', 'response.failed', 'response.incomplete']) {
    it(`are complete after ${type}, even when their connection breaks off then`, async () => {
      const last = event(type, 1, { response: responseOf('resp_whole') });
      setup.one.script = reset(last);
      const { text } = await send('POST', '/responses', '{"model":"m","input":"Hi","stream":true}');
      expect(text).to.equal(last);
    });
  }

  it('are charged by the usage of the upstream when the client disconnects, whatever the client has named usage', async () => {
    records.length = 0;
    const planted = streamOf('resp_left').map((text, i) =>
      i === 0
        ? text.replace('"response":{', '"response":{"tools":[{"usage":{"input_tokens":0,"output_tokens":0}}],')
        : text,
    );
    let clientLeft: Promise<unknown> = Promise.resolve();
    const onRequest = (message: unknown) => {
      const { response, socket } = message as { response: ServerResponse; socket: Socket };
      if (String(socket.localPort) === new URL(setup.gateway.url).port) clientLeft = once(response, 'close');
    };
    setup.one.script = async (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.write(planted.slice(0, -1).join(''));
      // until the gateway has seen it
      await clientLeft;
      res.end(planted.at(-1));
    };
    const abort = new AbortController();
    subscribe('http.server.request.start', onRequest);
    try {
      const stream = await setup.client.responses.create(
        { model: 'm', input: 'Hi', stream: true },
        { signal: abort.signal },
      );
      for await (const { type } of stream) if (type === 'response.output_text.delta') break;
      abort.abort();
      await until(() => records.length === 1);
    } finally {
      unsubscribe('http.server.request.start', onRequest);
    }
    expect(records[0]).to.include({ estimated: false, ending: 'client_left' });
    expect(records[0]).to.have.property('inputTokens').that.is.greaterThan(0);
  });

  it('that break off are charged by estimate, whatever the client has named usage, metadata or its type', async () => {
    records.length = 0;
    const mine = '"metadata":{"type":"response.completed"},"usage":{"input_tokens":0,"output_tokens":0},';
    const first = event('response.created', 0, { response: responseOf('resp_cut') }).replace(
      '"response":{',
      `"response":{${mine}`,
    );
    setup.one.script = reset(first);
    const { text } = await send('POST', '/responses', '{"model":"m","input":"Hi","stream":true}');
    expect(text.slice(first.length)).to.match(/^event: response\.failed\ndata: /);
    await until(() => records.length === 1);
    expect(records[0]).to.include({ estimated: true, ending: 'upstream_failed' });
  });

  it('are retrieved, streamed again, listed, canceled and deleted at the upstream that keeps them, and nowhere else', async () => {
    const { client, one, two } = setup;
    await create('resp_two', two, 'other');
    const calls = one.requests.length;

    two.script = json(200, responseOf('resp_two'));
    expect((await client.responses.retrieve('resp_two', { include: ['reasoning.encrypted_content'] })).id).to.equal(
      'resp_two',
    );
    expect(two.last.path).to.include('/v1/responses/resp_two?include');

    two.script = chunks(streamOf('resp_two').slice(1));
    const types: string[] = [];
    const again = await client.responses.retrieve('resp_two', { stream: true, starting_after: 0 });
    for await (const { type } of again) types.push(type);
    expect(types).to.deep.equal(['response.output_text.delta', 'response.completed']);
    expect(new URLSearchParams(two.last.path.split('?')[1]).get('starting_after')).to.equal('0');

    two.script = json(200, { object: 'list', data: [{ id: 'msg_1', type: 'message' }], has_more: false });
    const items = await client.responses.inputItems.list('resp_two', { limit: 5, order: 'asc' });
    expect(items.data.map(({ id }) => id)).to.deep.equal(['msg_1']);
    expect(two.last.path).to.equal('/v1/responses/resp_two/input_items?limit=5&order=asc');

    two.script = json(200, responseOf('resp_two', { status: 'cancelled' }));
    expect((await client.responses.cancel('resp_two')).status).to.equal('cancelled');
    expect([two.last.method, two.last.path]).to.deep.equal(['POST', '/v1/responses/resp_two/cancel']);

    two.script = json(200, { id: 'resp_two', object: 'response', deleted: true });
    await client.responses.delete('resp_two');
    expect([two.last.method, two.last.path]).to.deep.equal(['DELETE', '/v1/responses/resp_two']);
    expect((await failure(client.responses.retrieve('resp_two'))).code).to.equal('response_not_found');
    expect(one.requests).to.have.lengthOf(calls);
  });

  it('answer 404 to another account, as for an unknown id, without a call to the upstream', async () => {
    const { one, strangersKey } = setup;
    await create('resp_mine');
    const calls = one.requests.length;
    const requests: [string, string][] = [
      ['GET', ''],
      ['GET', '?stream=true'],
      ['DELETE', ''],
      ['POST', '/cancel'],
      ['GET', '/input_items'],
    ];
    for (const [method, rest] of requests) {
      const mine = await send(method, `/responses/resp_mine${rest}`, undefined, strangersKey);
      const unknown = await send(method, `/responses/resp_none${rest}`, undefined, strangersKey);
      expect([mine.status, unknown.status]).to.deep.equal([404, 404]);
      expect(mine.text).to.equal(unknown.text.replaceAll('resp_none', 'resp_mine'));
      expect(JSON.parse(mine.text).error).to.include({ type: 'not_found_error', code: 'response_not_found' });
    }
    expect(one.requests).to.have.lengthOf(calls);
  });

  it('continue a response of the same account at the upstream that keeps it', async () => {
    const { client, stranger, one, two } = setup;
    await create('resp_kept', two, 'other');
    two.script = json(200, responseOf('resp_next'));
    await client.responses.create({ model: 'both', input: 'And?', previous_response_id: 'resp_kept' });
    expect(JSON.parse(two.last.body.toString())).to.include({ previous_response_id: 'resp_kept' });

    const calls = one.requests.length + two.requests.length;
    const thrown = await failure(
      stranger.responses.create({ model: 'both', input: 'And?', previous_response_id: 'resp_kept' }),
    );
    expect([thrown.status, thrown.code, thrown.param]).to.deep.equal([
      404,
      'response_not_found',
      'previous_response_id',
    ]);
    for (const conversation of ['conv_none', { id: 'conv_none' }]) {
      const refused = await failure(client.responses.create({ model: 'both', input: 'And?', conversation }));
      expect([refused.status, refused.code, refused.param]).to.deep.equal([
        404,
        'conversation_not_found',
        'conversation',
      ]);
    }
    expect(one.requests.length + two.requests.length).to.equal(calls);
  });

  it('of another account are unknown where a call would only count or compact what follows them', async () => {
    const { client, stranger, one } = setup;
    await create('resp_own');
    const calls = one.requests.length;
    const body = { model: 'm', input: 'And?', previous_response_id: 'resp_own' };
    for (const refused of [
      await failure(stranger.responses.inputTokens.count(body)),
      await failure(stranger.responses.compact(body)),
    ]) {
      expect([refused.status, refused.code, refused.param]).to.deep.equal([
        404,
        'response_not_found',
        'previous_response_id',
      ]);
    }
    expect(one.requests).to.have.lengthOf(calls);
    one.script = json(200, { object: 'response.input_tokens', input_tokens: 9 });
    expect((await client.responses.inputTokens.count(body)).input_tokens).to.equal(9);
    one.script = json(200, { id: 'resp_c', object: 'response.compaction', created_at: 1, output: [], usage: {} });
    expect((await client.responses.compact(body)).id).to.equal('resp_c');
  });

  it('are not made in the background where none is made', async () => {
    for (const path of ['compact', 'input_tokens']) {
      const { status, body } = await setup.gateway.call('POST', `/v1/responses/${path}`, {
        model: 'm',
        input: 'Hi',
        background: true,
      });
      expect([status, body.error.code, body.error.message]).to.deep.equal([
        400,
        'invalid_value',
        'background: must be false or null',
      ]);
    }
  });

  it('are not stored with `store: false`', async () => {
    setup.one.script = json(200, responseOf('resp_forgotten'));
    await setup.client.responses.create({ model: 'm', input: 'Hi', store: false });
    expect((await failure(setup.client.responses.retrieve('resp_forgotten'))).status).to.equal(404);
  });

  it('stay with their account when another upstream gives the same id', async () => {
    const { stranger, client, one, two } = setup;
    await create('resp_twice');
    two.script = json(200, responseOf('resp_twice'));
    await stranger.responses.create({ model: 'other', input: 'Hi' });
    expect((await failure(stranger.responses.retrieve('resp_twice'))).status).to.equal(404);
    one.script = json(200, responseOf('resp_twice'));
    expect((await client.responses.retrieve('resp_twice')).id).to.equal('resp_twice');
  });

  it('end with the error of their upstream, unchanged', async () => {
    const error = {
      message: 'Too long',
      type: 'invalid_request_error',
      param: 'input',
      code: 'string_above_max_length',
    };
    setup.one.script = json(400, { error });
    expect((await failure(setup.client.responses.create({ model: 'm', input: 'Hi' }))).error).to.deep.equal(error);
  });

  it('have their input tokens counted free of charge, and are compacted', async () => {
    records.length = 0;
    setup.one.script = json(200, { object: 'response.input_tokens', input_tokens: 11 });
    const { input_tokens: tokens } = await setup.client.responses.inputTokens.count({ model: 'm', input: 'Hi' });
    expect([tokens, setup.one.last.path]).to.deep.equal([11, '/v1/responses/input_tokens']);
    setup.one.script = json(200, { ...responseOf('resp_compact'), object: 'response.compaction' });
    const compacted = await setup.client.responses.compact({ model: 'm', input: 'Hi' });
    expect([compacted.object, setup.one.last.path]).to.deep.equal(['response.compaction', '/v1/responses/compact']);
    await until(() => records.length === 2);
    expect(records[0]).to.include({ inputTokens: 0, outputTokens: 0, estimated: false });
    expect(records[1]).to.include({ inputTokens: 30, outputTokens: 20, estimated: false });
  });
});
