import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { expect } from 'chai';
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { WebSocket } from 'ws';
import { silentLogger } from '../support/logger.ts';
import { until } from '../support/until.ts';
import { answer, type HttpRequest, respond, SocketUpstream } from './socket-upstream.ts';
import { refusalOf, SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

let made = 0;
const sdp = 'v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\n';

/** Answers as OpenAI's realtime API does over HTTP. */
function provide({ url, body }: HttpRequest, res: ServerResponse): void {
  made += 1;
  const path = url.split('?', 1)[0] as string;
  const json = (value: unknown) =>
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  const secret = { value: `ek_secret_${made}`, expires_at: Math.floor(Date.now() / 1_000) + 600 };
  if (path === '/v1/realtime/client_secrets') {
    json({
      ...secret,
      session: { id: `sess_${made}`, type: 'realtime', model: 'gpt-realtime', ...JSON.parse(body || '{}').session },
    });
  } else if (path.endsWith('sessions')) json({ id: `sess_${made}`, object: 'realtime.session', client_secret: secret });
  else if (path === '/v1/realtime/calls') {
    res
      .writeHead(201, { 'content-type': 'application/sdp', location: `/v1/realtime/calls/rtc_${made}` })
      .end('v=0\r\n');
  } else res.writeHead(200).end();
}

describe('a realtime session that is prepared over HTTP', () => {
  let upstream: SocketUpstream;
  let other: SocketUpstream;
  let gateway: SocketGateway;
  before(async () => {
    [upstream, other] = await Promise.all([SocketUpstream.start(), SocketUpstream.start()]);
    gateway = await startSocketGateway({
      upstreams: [
        {
          name: 'up',
          baseUrl: upstream.baseUrl,
          apiKey: 'sk-up',
          models: ['gpt-realtime', 'whisper-1'],
          aliases: { talk: 'gpt-realtime', hear: 'whisper-1' },
        },
        { name: 'other', baseUrl: other.baseUrl, models: ['other-*'], priority: 1 },
      ],
    });
  });
  beforeEach(() => {
    for (const each of [upstream, other]) {
      each.reset();
      each.onRequest = provide;
      each.onEvent = ({ type }, socket) => type === 'response.create' && respond(socket);
    }
    gateway.usage.length = 0;
  });
  after(async () => {
    await gateway.close();
    await Promise.all([upstream.close(), other.close()]);
  });

  const base = () => gateway.url.replace('ws:', 'http:');
  const post = (path: string, key: string, init: RequestInit) =>
    fetch(`${base()}${path}`, {
      method: 'POST',
      ...init,
      headers: { authorization: `Bearer ${key}`, ...init.headers },
    });
  const newSecret = async (key = gateway.key, model = 'talk'): Promise<string> => {
    const client = new OpenAI({ apiKey: key, baseURL: base(), maxRetries: 0 });
    return (await client.realtime.clientSecrets.create({ session: { type: 'realtime', model } })).value;
  };

  it('is asked for once more where a kept connection ends without an answer, but a call is begun once', async () => {
    const kept = new WeakSet<object>();
    upstream.onRequest = (request, res) => {
      if (kept.has(res.socket as object)) res.socket?.destroy();
      else {
        kept.add(res.socket as object);
        provide(request, res);
      }
    };
    await newSecret();
    await newSecret();
    expect(upstream.requests).to.have.lengthOf(3);
    await newSecret();
    const body = new FormData();
    body.set('sdp', sdp);
    body.set('session', JSON.stringify({ type: 'realtime', model: 'talk' }));
    expect((await post('/realtime/calls', gateway.key, { body })).status).to.equal(502);
    expect(upstream.requests.filter(({ url }) => url.startsWith('/v1/realtime/calls'))).to.have.lengthOf(1);
  });

  describe('by a secret', () => {
    it("of the official client asks for the upstream's model, and counts as a request that has used nothing", async () => {
      const { value, session } = await gateway.plain.realtime.clientSecrets.create({
        expires_after: { anchor: 'created_at', seconds: 60 },
        session: { type: 'realtime', model: 'talk', audio: { input: { transcription: { model: 'hear' } } } },
      });
      expect(value).to.match(/^ek_/);
      expect(session).to.include({ model: 'gpt-realtime' });
      const [{ headers, body }] = upstream.requests as [HttpRequest];
      expect(headers.authorization).to.equal('Bearer sk-up');
      expect(JSON.parse(body)).to.deep.equal({
        expires_after: { anchor: 'created_at', seconds: 60 },
        session: {
          type: 'realtime',
          model: 'gpt-realtime',
          audio: { input: { transcription: { model: 'whisper-1' } } },
        },
      });
      const [record] = await gateway.charged(1);
      expect(record).to.include({
        endpoint: '/realtime/client_secrets',
        model: 'talk',
        inputTokens: 0,
        outputTokens: 0,
      });
    });

    it('of clients of the beta is one, too', async () => {
      const { client_secret } = await gateway.plain.beta.realtime.sessions.create({
        model: 'talk' as 'gpt-4o-realtime-preview',
      });
      expect(JSON.parse(upstream.requests[0]?.body ?? '')).to.deep.equal({ model: 'gpt-realtime' });
      const transcribing = await gateway.plain.beta.realtime.transcriptionSessions.create({
        input_audio_transcription: { model: 'hear' as 'whisper-1' },
      });
      expect(JSON.parse(upstream.requests[1]?.body ?? '')).to.deep.equal({
        input_audio_transcription: { model: 'whisper-1' },
      });
      for (const { value } of [client_secret, transcribing.client_secret]) {
        const client = await SocketClient.open(`${gateway.url}/realtime`, value);
        client.socket.close();
        await client.whenClosed();
      }
      expect((await gateway.charged(2)).map(({ model }) => model)).to.deep.equal(['talk', 'hear']);
    });

    it('opens a socket of the official client, which goes up with that secret and is charged to its account', async () => {
      const key = await gateway.newKey({ userId: 'usr_talks' });
      const secret = await newSecret(key);
      const client = new OpenAIRealtimeWS(
        { model: 'talk', options: gateway.trust },
        new OpenAI({ apiKey: secret, baseURL: gateway.secure.baseURL }),
      );
      await once(client.socket, 'open');
      client.send({ type: 'response.create' });
      const [, record] = await gateway.charged(2);
      expect(record).to.include({ userId: 'usr_talks', endpoint: '/realtime', model: 'talk', inputTokens: 20 });
      expect(upstream.handshakes[0]?.headers.authorization).to.equal(`Bearer ${secret}`);
      expect(upstream.handshakes[0]?.url).to.equal('/v1/realtime?model=gpt-realtime');
      client.close();
      await once(upstream.socket, 'close');
    });

    it('opens the socket of a browser, which names it as a subprotocol, at the upstream that made it', async () => {
      const secret = await newSecret(gateway.key, 'other-1');
      const socket = new WebSocket(`${gateway.url}/realtime`, ['realtime', `openai-insecure-api-key.${secret}`]);
      await once(socket, 'open');
      expect([other.handshakes.length, upstream.handshakes.length]).to.deep.equal([1, 0]);
      expect(other.handshakes[0]?.headers.authorization).to.equal(`Bearer ${secret}`);
      socket.close();
      await once(socket, 'close');
    });

    it('is for its model alone, and for realtime alone', async () => {
      const secret = await newSecret();
      const headers = { authorization: `Bearer ${secret}` };
      const { status, body } = await refusalOf(`${gateway.url}/realtime?model=gpt-realtime`, headers);
      expect([status, body.error.code, body.error.param]).to.deep.equal([400, 'invalid_value', 'model']);
      expect((await refusalOf(`${gateway.url}/responses`, headers)).status).to.equal(401);
      for (const path of ['/realtime/client_secrets', '/responses', '/realtime/calls/rtc_1/hangup']) {
        const init = { body: '{"model":"talk"}', headers: { 'content-type': 'application/json' } };
        expect((await post(path, secret, init)).status, path).to.equal(401);
      }
    });

    it('is refused when its key is revoked, and ends the socket that it has opened', async () => {
      const { id, key } = await gateway.gateway.keys.create({ userId: 'usr_1', scopes: ['models'] });
      const secret = await newSecret(key);
      const client = await SocketClient.open(`${gateway.url}/realtime`, secret);
      await gateway.gateway.keys.revoke(id, 'usr_1');
      client.send({ type: 'response.create' });
      expect(await client.whenClosed()).to.deep.equal({ code: 1008, reason: 'invalid_api_key' });
      const { status, body } = await refusalOf(`${gateway.url}/realtime`, { authorization: `Bearer ${secret}` });
      expect([status, body.error.code]).to.deep.equal([401, 'invalid_api_key']);
    });

    it('is refused when it has expired, which its open socket outlives', async () => {
      upstream.onRequest = (_request, res) =>
        res
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ value: 'ek_short_lived', expires_at: Date.now() / 1_000 + 1, session: {} }));
      const secret = await newSecret();
      const client = await SocketClient.open(`${gateway.url}/realtime`, secret);
      const headers = { authorization: `Bearer ${secret}` };
      let refused = false;
      while (!refused) {
        const open = new WebSocket(`${gateway.url}/realtime`, { headers });
        refused = await new Promise<boolean>((resolve) => {
          open.on('open', () => resolve(false));
          open.on('error', () => resolve(true));
        });
        open.terminate();
      }
      client.send({ type: 'response.create' });
      await client.event('response.done');
      client.socket.close();
      await client.whenClosed();
    });

    it('that its upstream refuses is said to be good no longer', async () => {
      const secret = await newSecret();
      upstream.refuse = answer('401 Unauthorized', '{}');
      const { status, body } = await refusalOf(`${gateway.url}/realtime`, { authorization: `Bearer ${secret}` });
      expect([status, body.error.code]).to.deep.equal([401, 'invalid_api_key']);
    });

    it('is in no log, and its refusal does not tell the operator that the upstream fails', async () => {
      const logged: unknown[] = [];
      const log = (...line: unknown[]) => void logged.push(line);
      const quiet = await startSocketGateway({
        logger: { ...silentLogger, info: log, warn: log, error: log },
        upstreams: [{ name: 'up', baseUrl: upstream.baseUrl, maskErrors: true }],
      });
      const client = new OpenAI({ apiKey: quiet.key, baseURL: quiet.url.replace('ws:', 'http:'), maxRetries: 0 });
      const { value } = await client.realtime.clientSecrets.create({ session: { type: 'realtime', model: 'talk' } });
      const open = await SocketClient.open(`${quiet.url}/realtime`, value);
      upstream.socket.close(1008, `${value} is good no longer`);
      await open.whenClosed();
      upstream.refuse = answer('401 Unauthorized', '{}');
      await refusalOf(`${quiet.url}/realtime`, { authorization: `Bearer ${value}` });
      await quiet.close();
      const text = JSON.stringify(logged);
      expect(text).to.include('an upstream closed a WebSocket');
      expect(text).to.not.include(value).and.to.not.include('an upstream fails');
    });

    it('is stored as a hash', async () => {
      const secret = await newSecret();
      const stored = await gateway.stored();
      expect(stored.map(({ kind }) => kind)).to.include('secret');
      expect(JSON.stringify(stored)).to.not.include(secret);
    });

    it('is not made with a model that the key may not call, whichever field names it', async () => {
      const key = await gateway.newKey({ models: ['talk'] });
      const headers = { 'content-type': 'application/json' };
      for (const [path, body] of [
        ['/realtime/client_secrets', { session: { model: 'gpt-realtime' } }],
        ['/realtime/client_secrets', {}],
        [
          '/realtime/client_secrets',
          { session: { model: 'talk', audio: { input: { transcription: { model: 'hear' } } } } },
        ],
        ['/realtime/sessions', { model: 'hear' }],
        ['/realtime/transcription_sessions', { input_audio_transcription: { model: 'hear' } }],
        ['/realtime/calls', { sdp, session: { model: 'hear' } }],
      ] as const) {
        const refused = await post(path, key, { headers, body: JSON.stringify(body) });
        const { error } = (await refused.json()) as { error: { code: string } };
        expect([refused.status, error.code], JSON.stringify(body)).to.deep.equal([403, 'model_not_allowed']);
      }
      expect(upstream.requests).to.deep.equal([]);
    });

    it('names its model where the upstream reads it, not in the query or in another field', async () => {
      const key = await gateway.newKey({ models: ['talk', 'hear'] });
      const headers = { 'content-type': 'application/json' };
      const transcription = { model: 'hear' };
      for (const [path, body, param] of [
        ['/realtime/client_secrets?model=talk', { session: { type: 'realtime' } }, 'model'],
        ['/realtime/sessions?model=talk', {}, 'model'],
        ['/realtime/client_secrets', { model: 'talk', session: { type: 'realtime' } }, 'model'],
        ['/realtime/sessions', { session: { model: 'talk' } }, 'session.model'],
        ['/realtime/calls', { sdp, model: 'talk' }, 'model'],
        ['/realtime/calls?model=talk', { sdp, session: { type: 'realtime' } }, 'model'],
        // it would talk with a model of the upstream's choice
        ['/realtime/client_secrets', { session: { type: 'realtime', audio: { input: { transcription } } } }, 'model'],
        ['/realtime/sessions', { input_audio_transcription: transcription }, 'model'],
      ] as const) {
        const refused = await post(path, key, { headers, body: JSON.stringify(body) });
        const { error } = (await refused.json()) as { error: { param: string } };
        expect([refused.status < 404, error.param], `${path} ${JSON.stringify(body)}`).to.deep.equal([true, param]);
      }
      expect(upstream.requests).to.deep.equal([]);
      const session = { type: 'transcription', audio: { input: { transcription } } };
      const made = await post('/realtime/client_secrets', key, { headers, body: JSON.stringify({ session }) });
      expect(made.status).to.equal(200);
      expect((await gateway.charged(1))[0]?.model).to.equal('hear');
    });

    it('that is for no model opens only what its upstream serves', async () => {
      upstream.onRequest = (_request, res) =>
        res
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ value: 'ek_any_model', expires_at: Date.now() / 1_000 + 600, session: {} }));
      const { value } = await gateway.plain.realtime.clientSecrets.create({});
      const headers = { authorization: `Bearer ${value}` };
      for (const model of ['ft:gpt-realtime:of-another', 'other-1']) {
        const { status, body } = await refusalOf(`${gateway.url}/realtime?model=${model}`, headers);
        expect([status, body.error.code], model).to.deep.equal([404, 'model_not_found']);
      }
      const client = await SocketClient.open(`${gateway.url}/realtime?model=talk`, value);
      client.socket.close();
      await client.whenClosed();
    });

    it('that another key of the account has is not passed on', async () => {
      upstream.onRequest = (_request, res) =>
        res
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ value: 'ek_twice', expires_at: Date.now() / 1_000 + 600, session: {} }));
      const limited = await gateway.newKey({ models: ['talk'] });
      const init = { headers: { 'content-type': 'application/json' }, body: '{"session":{"model":"talk"}}' };
      const statuses = [];
      for (const key of [gateway.key, gateway.key, limited]) {
        statuses.push((await post('/realtime/client_secrets', key, init)).status);
      }
      expect(statuses).to.deep.equal([200, 200, 502]);
    });

    it('is good for a day at most, however late its upstream says that it expires', async () => {
      upstream.onRequest = (_request, res) =>
        res
          .writeHead(200, { 'content-type': 'application/json' })
          .end('{"value":"ek_for_ever","expires_at":1e300,"session":{"model":"gpt-realtime"}}');
      await gateway.plain.realtime.clientSecrets.create({ session: { type: 'realtime', model: 'talk' } });
      const client = await SocketClient.open(`${gateway.url}/realtime`, 'ek_for_ever');
      client.socket.close();
      await client.whenClosed();
    });

    it('is not passed on where the answer has none', async () => {
      upstream.onRequest = (_request, res) => res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      const { status } = await gateway.plain.realtime.clientSecrets.create({}).then(
        () => ({ status: 200 }),
        (error) => error,
      );
      expect(status).to.equal(502);
      expect(gateway.usage).to.deep.equal([]);
    });
  });

  describe('as a call over WebRTC', () => {
    /** A call, begun with a form. @returns its id */
    async function newCall(key = gateway.key): Promise<string> {
      const body = new FormData();
      body.set('sdp', sdp);
      body.set('session', JSON.stringify({ type: 'realtime', model: 'talk' }));
      const begun = await post('/realtime/calls', key, { body });
      expect([begun.status, await begun.text()]).to.deep.equal([201, 'v=0\r\n']);
      expect(begun.headers.get('content-type')).to.equal('application/sdp');
      expect(begun.headers.get('location')).to.match(/^\/v1\/realtime\/calls\/rtc_\d+$/);
      return begun.headers.get('location')?.split('/').pop() as string;
    }

    it("is begun with a form, in which the model gets the upstream's name", async () => {
      await newCall();
      expect(upstream.requests[0]?.body).to.include('{"type":"realtime","model":"gpt-realtime"}').and.to.include(sdp);
      const [record] = await gateway.charged(1);
      expect(record).to.include({ endpoint: '/realtime/calls', model: 'talk', inputTokens: 0, outputTokens: 0 });
    });

    it('is begun with a form that says the types and lengths of its parts', async () => {
      const session = '{"model":"talk"}';
      const lines = (part: string, type: string, text: string) => [
        '--b',
        `Content-Disposition: form-data; name="${part}"`,
        `Content-Type: ${type}`,
        `Content-Length: ${Buffer.byteLength(text)}`,
        '',
        text,
      ];
      const body = [
        ...lines('sdp', 'application/sdp', sdp),
        ...lines('session', 'application/json', session),
        '--b--',
        '',
      ].join('\r\n');
      const headers = { 'content-type': 'multipart/form-data; boundary=b' };
      expect((await post('/realtime/calls', gateway.key, { headers, body })).status).to.equal(201);
      const longer = '{"model":"gpt-realtime"}';
      expect(upstream.requests[0]?.body).to.equal(body.replace(session, longer).replace('Length: 16', 'Length: 24'));
    });

    it('is begun with JSON, or with the offer alone and a secret', async () => {
      const asJson = {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ sdp, session: { model: 'talk' } }),
      };
      expect((await post('/realtime/calls', gateway.key, asJson)).status).to.equal(201);
      expect(JSON.parse(upstream.requests[0]?.body ?? '')).to.deep.equal({ sdp, session: { model: 'gpt-realtime' } });
      const alone = { headers: { 'content-type': 'application/sdp' }, body: sdp };
      const secret = await newSecret();
      expect((await post('/realtime/calls?model=talk', secret, alone)).status).to.equal(201);
      const { url, body, headers } = upstream.requests.at(-1) as HttpRequest;
      expect([url, body, headers.authorization]).to.deep.equal([
        '/v1/realtime/calls?model=gpt-realtime',
        sdp,
        `Bearer ${secret}`,
      ]);
      const records = await gateway.charged(3);
      expect(records.map(({ model }) => model)).to.deep.equal(['talk', 'talk', 'talk']);
    });

    it('belongs to its account: to another one it is not found', async () => {
      const id = await newCall();
      const stranger = await gateway.newKey({ userId: 'usr_stranger' });
      const as = (apiKey: string) => new OpenAI({ apiKey, baseURL: base(), maxRetries: 0 }).realtime.calls;
      const actions = (calls: ReturnType<typeof as>, call: string) => [
        () => calls.accept(call, { type: 'realtime', model: 'talk' as 'gpt-realtime' }),
        () => calls.refer(call, { target_uri: 'tel:+14155550123' }),
        () => calls.reject(call, { status_code: 486 }),
        () => calls.hangup(call),
      ];
      for (const [key, call] of [
        [stranger, id],
        [gateway.key, 'rtc_unknown'],
      ] as const) {
        for (const action of actions(as(key), call)) {
          const { status, code } = await action().then(
            () => ({ status: 200, code: null }),
            (error) => error,
          );
          expect([status, code]).to.deep.equal([404, 'realtime_call_not_found']);
        }
        const headers = { authorization: `Bearer ${key}` };
        expect((await refusalOf(`${gateway.url}/realtime?call_id=${call}`, headers)).status).to.equal(404);
      }
      for (const action of actions(as(gateway.key), id)) await action();
      const paths = upstream.requests.slice(1).map(({ url }) => url);
      expect(paths).to.deep.equal(
        ['accept', 'refer', 'reject', 'hangup'].map((end) => `/v1/realtime/calls/${id}/${end}`),
      );
      expect(JSON.parse(upstream.requests[1]?.body ?? '')).to.deep.equal({ type: 'realtime', model: 'gpt-realtime' });
    });

    it('can be listened to by the official client, and is charged for what passes there', async () => {
      const callID = await newCall();
      const client = new OpenAIRealtimeWS({ callID, options: gateway.trust }, gateway.secure);
      await once(client.socket, 'open');
      expect(upstream.handshakes[0]?.url).to.equal(`/v1/realtime?call_id=${callID}`);
      respond(upstream.socket);
      const [, record] = await gateway.charged(2);
      expect(record).to.include({ endpoint: '/realtime', model: 'talk', inputTokens: 20 });
      client.close();
      await once(upstream.socket, 'close');
    });

    it('is not named by what some readers take for its parameter', async () => {
      const id = await newCall(await gateway.newKey({ userId: 'usr_listened_to' }));
      for (const parameter of ['Call_ID', 'call_id[]', 'call_id.0', 'MODEL', 'model[0]']) {
        const { status, body } = await refusalOf(`${gateway.url}/realtime?model=talk&${parameter}=${id}`, {
          authorization: `Bearer ${gateway.key}`,
        });
        expect([status, body.error.code], parameter).to.deep.equal([400, 'unknown_parameter']);
      }
      expect(upstream.handshakes).to.deep.equal([]);
    });

    it('with a model of its upstream is not listened to with a key that is limited to others', async () => {
      const alone = { headers: { 'content-type': 'application/sdp' }, body: sdp };
      const begun = await post('/realtime/calls', gateway.key, alone);
      const id = begun.headers.get('location')?.split('/').pop();
      const limited = await gateway.newKey({ models: ['talk'] });
      const { status, body } = await refusalOf(`${gateway.url}/realtime?call_id=${id}`, {
        authorization: `Bearer ${limited}`,
      });
      expect([status, body.error.code]).to.deep.equal([403, 'model_not_allowed']);
    });

    it('is not begun with a form that names a model beside the session', async () => {
      const body = new FormData();
      for (const [name, text] of Object.entries({ sdp, session: '{"model":"talk"}', Model: 'gpt-realtime' })) {
        body.set(name, text);
      }
      expect((await post('/realtime/calls', gateway.key, { body })).status).to.equal(400);
      expect(upstream.requests).to.deep.equal([]);
    });

    it('is not listened to with a secret, nor with another model', async () => {
      const id = await newCall();
      const secret = await newSecret();
      for (const [query, key, param] of [
        [`call_id=${id}`, secret, 'call_id'],
        [`call_id=${id}&model=talk`, gateway.key, 'model'],
      ] as const) {
        const { status, body } = await refusalOf(`${gateway.url}/realtime?${query}`, {
          authorization: `Bearer ${key}`,
        });
        expect([status, body.error.param]).to.deep.equal([400, param]);
      }
    });

    it('is not passed on where the answer names none', async () => {
      upstream.onRequest = (_request, res) => res.writeHead(201, { 'content-type': 'application/sdp' }).end('v=0');
      const refused = await post('/realtime/calls?model=talk', gateway.key, {
        headers: { 'content-type': 'application/sdp' },
        body: sdp,
      });
      expect(refused.status).to.equal(502);
      await until(() => upstream.requests.length === 1);
    });
  });
});
