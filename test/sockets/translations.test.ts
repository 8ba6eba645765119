import { expect } from 'chai';
import type { UsageRecord } from '../../src/index.ts';
import { whileClockStands } from '../support/clock.ts';
import { until } from '../support/until.ts';
import { answer, type HttpRequest, SocketUpstream } from './socket-upstream.ts';
import { refusalOf, SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

const translation = (transcription?: object | null) => ({
  type: 'translation',
  model: 'gpt-realtime-translate',
  audio: { input: { transcription }, output: { language: 'pt' } },
});
/** Sound of 24,000 samples of 16 bits a second. */
const sound = (seconds: number, bytesPerSecond = 48_000) => Buffer.alloc(seconds * bytesPerSecond).toString('base64');
const append = (seconds: number, event_id?: string, bytesPerSecond?: number) => ({
  type: 'session.input_audio_buffer.append',
  audio: sound(seconds, bytesPerSecond),
  event_id,
});
const spoken = (seconds: number, more: object = {}, bytesPerSecond?: number) => ({
  type: 'session.output_audio.delta',
  delta: sound(seconds, bytesPerSecond),
  ...more,
});
const text = (delta: string, of: 'output' | 'input' = 'output') => ({ type: `session.${of}_transcript.delta`, delta });
const close = { type: 'session.close' };
const closed = { type: 'session.closed' };

describe('a translation session', () => {
  let upstream: SocketUpstream;
  let other: SocketUpstream;
  let gateway: SocketGateway;
  let accounts = 0;
  before(async () => {
    [upstream, other] = await Promise.all([SocketUpstream.start(), SocketUpstream.start()]);
    gateway = await startSocketGateway({
      upstreams: [
        {
          name: 'up',
          baseUrl: upstream.baseUrl,
          apiKey: 'sk-up',
          maskErrors: true,
          models: ['gpt-realtime-translate', 'gpt-4o-transcribe', 'timed', 'dear'],
          aliases: { interpret: 'gpt-realtime-translate', hear: 'gpt-4o-transcribe' },
        },
        { name: 'other', baseUrl: other.baseUrl, models: ['other-*'] },
      ],
      credits: {
        prices: {
          '*': {},
          // by the second, as providers count it
          interpret: { second: 0.01 },
          // by token, and sound otherwise than text
          timed: { input: 1, output: 1, audioInput: 1_000, audioOutput: 2_000 },
          hear: { second: 0.005 },
          dear: { second: 1 },
        },
      },
      limits: { perKey: ({ userId }) => (userId.endsWith('_limited') ? { requestsPerMinute: 2 } : undefined) },
    });
  });
  afterEach(() => {
    for (const each of [upstream, other]) each.reset();
    gateway.usage.length = 0;
  });
  after(async () => {
    await gateway.close();
    await Promise.all([upstream.close(), other.close()]);
  });

  const say = (...events: object[]) => {
    for (const event of events) upstream.socket.send(JSON.stringify(event));
  };
  /** An account with so many credits. */
  const account = async (credits = 100, suffix = '') => {
    accounts += 1;
    const userId = `usr_${accounts}${suffix}`;
    await gateway.gateway.credits?.topUp({ userId, credits, reference: userId });
    const balance = async () => (await gateway.gateway.credits?.balance(userId))?.creditsRemaining;
    return { userId, balance, key: await gateway.newKey({ userId }) };
  };
  const urlOf = (model = 'interpret') => `${gateway.url}/realtime/translations?model=${model}`;
  const open = async (key: string, { model = 'interpret', session = translation(), url = urlOf(model) } = {}) => {
    upstream.onOpen = (socket) => socket.send(JSON.stringify({ type: 'session.created', session }));
    const client = await SocketClient.open(url, key);
    await client.event('session.created');
    return client;
  };
  const ended = () => until(() => upstream.socket.readyState === upstream.socket.CLOSED);
  const leave = async (client: SocketClient) => {
    const { socket } = upstream;
    client.socket.close();
    await until(() => socket.readyState === socket.CLOSED);
  };
  const only = async (): Promise<UsageRecord> => (await gateway.charged(1))[0] as UsageRecord;

  it('passes both ways as it came, to an upstream that serves its model, and is charged by the length of its sound', async () => {
    const { key, balance } = await account();
    const client = await open(key);
    expect(upstream.handshakes[0]?.url).to.equal('/v1/realtime/translations?model=gpt-realtime-translate');
    expect(upstream.handshakes[0]?.headers.authorization).to.equal('Bearer sk-up');
    const update = { type: 'session.update', session: { audio: { output: { language: 'pt' } } } };
    for (const event of [update, append(2), append(3), close]) client.send(event);
    await upstream.got(4);
    expect(upstream.events).to.deep.equal(JSON.parse(JSON.stringify([update, append(2), append(3), close])));
    const events = [spoken(2), text('Tejo'), text('Tagus', 'input'), spoken(3), closed];
    say(...events);
    await client.event('session.closed');
    expect(client.events.slice(1)).to.deep.equal(events);
    expect(await only()).to.include({
      ...{ endpoint: '/realtime/translations', model: 'interpret', upstream: 'up', ending: 'complete' },
      // 10 tokens a second of what goes up; 20 of what comes down, and its text
      ...{ seconds: 5, inputTokens: 50, outputTokens: 103, estimated: true },
    });
    await until(async () => (await balance()) === 99.95);
    await leave(client);
    expect(gateway.usage).to.have.length(1);
  });

  it('is charged by tokens where these cost more, as sound', async () => {
    const { key, balance } = await account();
    const client = await open(key, { model: 'timed' });
    client.send(append(10));
    await upstream.got(1);
    say(spoken(10), closed);
    await client.event('session.closed');
    // 100 tokens of audioInput and 200 of audioOutput
    await until(async () => (await balance()) === 99.5);
    await leave(client);
  });

  for (const { name, up, down, session, seconds } of [
    { name: 'what comes down where that is longer', up: append(1), down: spoken(4), seconds: 4 },
    {
      name: 'what comes down by its own rate and channels',
      up: append(1),
      down: spoken(4, { format: 'pcm16', sample_rate: 16_000, channels: 2 }, 64_000),
      seconds: 4,
    },
    {
      name: 'G.711, where the upstream takes it',
      up: append(5, undefined, 8_000),
      down: spoken(3, {}, 8_000),
      session: {
        ...translation(),
        audio: { input: { format: { type: 'audio/pcmu' } }, output: { format: { type: 'audio/pcmu' } } },
      },
      seconds: 5,
    },
  ]) {
    it(`is as long as ${name}`, async () => {
      const { key } = await account();
      const client = await open(key, session && { session: session as never });
      client.send(up);
      await upstream.got(1);
      say(down, closed);
      await client.event('session.closed');
      expect(await only()).to.include({ seconds });
      await leave(client);
    });
  }

  it('is as long in binary frames, and in those with white space before', async () => {
    const { key } = await account();
    const client = await open(key);
    const event = Buffer.from(JSON.stringify(append(2)));
    for (const data of [event, Buffer.concat([Buffer.from('\r\n '), event])])
      client.socket.send(data, { binary: true });
    await upstream.got(2);
    upstream.socket.send(Buffer.from(JSON.stringify(spoken(5))), { binary: true });
    await until(() => client.received.some(({ isBinary }) => isBinary));
    await leave(client);
    expect(await only()).to.include({ seconds: 5, inputTokens: 40 });
  });

  for (const { name, end, ending } of [
    { name: 'its client leaves', end: (client: SocketClient) => client.socket.close(), ending: 'client_left' },
    { name: 'its client is lost', end: (client: SocketClient) => client.socket.terminate(), ending: 'client_left' },
    { name: 'its upstream dies', end: () => upstream.socket.terminate(), ending: 'upstream_failed' },
  ] as const) {
    it(`is charged for what has passed where ${name}`, async () => {
      const { key } = await account();
      const client = await open(key);
      client.send(append(7));
      await upstream.got(1);
      say(spoken(6));
      await client.event('session.output_audio.delta');
      end(client);
      expect(await only()).to.include({ seconds: 7, inputTokens: 70, outputTokens: 120, estimated: true, ending });
      await ended();
    });
  }

  it('is waited for where its client leaves right behind its end', async () => {
    const { key } = await account();
    const client = await open(key);
    client.send(append(2));
    client.send(close);
    client.socket.close();
    await upstream.got(2);
    await client.whenClosed();
    say(spoken(2), closed);
    expect(await only()).to.include({ seconds: 2, outputTokens: 40, ending: 'complete' });
    await ended();
  });

  it('ends with its key, and is charged for what has passed', async () => {
    const { userId } = await account();
    const { id, key } = await gateway.gateway.keys.create({ userId, scopes: ['models'] });
    const client = await open(key);
    client.send(append(60));
    await upstream.got(1);
    await gateway.gateway.keys.revoke(id, userId);
    client.send(append(1));
    expect((await client.event('error')).error.code).to.equal('invalid_api_key');
    expect(await client.whenClosed()).to.deep.equal({ code: 1008, reason: 'invalid_api_key' });
    await ended();
    expect(await only()).to.include({ seconds: 60 });
    expect(upstream.received).to.have.length(1);
  });

  it('ends with the gateway, after the rest of a translation that its client waits for', async () => {
    const live = await startSocketGateway({ upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }] });
    const waiting = await open(live.key, { url: `${live.url}/realtime/translations?model=m` });
    const { socket } = upstream;
    waiting.send(append(2));
    waiting.send(close);
    await upstream.got(2);
    const talking = await open(live.key, { url: `${live.url}/realtime/translations?model=m` });
    talking.send(append(3));
    await upstream.got(3);
    const closing = live.close();
    expect(await talking.whenClosed()).to.deep.equal({ code: 1001, reason: 'shutting_down' });
    expect(waiting.closed).to.equal(undefined);
    for (const event of [spoken(2), closed]) socket.send(JSON.stringify(event));
    expect(await waiting.whenClosed()).to.deep.equal({ code: 1001, reason: 'shutting_down' });
    expect(waiting.events.map(({ type }) => type)).to.deep.equal(['session.created', spoken(0).type, closed.type]);
    await closing;
    expect(live.usage.map(({ seconds }) => seconds).sort()).to.deep.equal([2, 3]);
  });

  it('costs nothing where its upstream sends only errors, which are masked', async () => {
    const { key, balance } = await account();
    const client = await SocketClient.open(urlOf(), key);
    client.send(append(10));
    await upstream.got(1);
    say({ type: 'error', error: { type: 'server_error', code: 'out', message: 'of sk-up' } });
    const { error } = await client.event('error');
    expect(error.code).to.equal('upstream_error');
    expect(JSON.stringify(client.events)).not.to.include('sk-up');
    await leave(client);
    expect([gateway.usage, await balance()]).to.deep.equal([[], 100]);
  });

  it('is charged for what goes up before its upstream has said anything', async () => {
    const { key } = await account();
    const client = await SocketClient.open(urlOf(), key);
    for (const seconds of [70, 80]) client.send(append(seconds));
    await upstream.got(2);
    say({ type: 'session.created', session: translation() }, closed);
    await client.event('session.closed');
    expect(gateway.usage.map(({ seconds }) => seconds)).to.deep.equal([150]);
    await leave(client);
  });

  describe('is charged in parts of a minute,', () => {
    it('of which each is a request, the first that of the handshake: over a limit, sound is refused until it may go on', () =>
      whileClockStands(async () => {
        const { key, balance } = await account(100, '_limited');
        const client = await open(key);
        for (const seconds of [40, 30, 60]) client.send(append(seconds));
        await upstream.got(3);
        // it is told once until it may go on
        const { status, headers, error } = await whileClockStands(async (pass) => {
          client.send(append(1, 'over'));
          const refused = await client.event('error');
          pass(Math.min(refused.headers['retry-after-ms'], 500) - 1);
          client.send(append(1, 'again'));
          client.send(close);
          await upstream.got(4);
          return refused;
        }, performance);
        expect([status, error.code, error.event_id]).to.deep.equal([429, 'rate_limit_exceeded', 'over']);
        expect(Number(headers['retry-after'])).to.be.above(0);
        say(closed);
        await client.event('session.closed');
        expect(client.events.filter(({ type }) => type === 'error')).to.have.length(1);
        expect(upstream.events.map(({ type }) => type)).to.deep.equal([...Array(3).fill(append(0).type), close.type]);
        expect(gateway.usage.map(({ seconds }) => seconds)).to.deep.equal([70, 60]);
        await until(async () => (await balance()) === 98.7);
        await leave(client);
      }));

    it('and of what comes down late, no second twice', async () => {
      const { key } = await account();
      const client = await open(key);
      client.send(append(60));
      await upstream.got(1);
      say(spoken(50), text('Tejo'));
      await client.event(text('').type);
      client.send(append(5));
      await upstream.got(2);
      say(spoken(15), closed);
      await client.event('session.closed');
      expect(gateway.usage.map(({ seconds, inputTokens }) => [seconds, inputTokens])).to.deep.equal([
        [60, 600],
        [5, 50],
      ]);
      // all that has come down behind the first part
      expect(gateway.usage.reduce((sum, { outputTokens }) => sum + outputTokens, 0)).to.be.within(1_300, 1_310);
      await leave(client);
    });
  });

  describe('is admitted by the length of its sound before that goes up,', () => {
    it('as far as credits last: then an error says so, and the session goes on when there are some', async () => {
      const { userId, key, balance } = await account(0.5);
      const client = await open(key);
      client.send(append(20, 'fits'));
      client.send(append(200, 'over'));
      const { status, error } = await client.event('error');
      expect([status, error.code, error.event_id]).to.deep.equal([402, 'insufficient_credits', 'over']);
      expect(client.closed).to.equal(undefined);
      await gateway.gateway.credits?.topUp({ userId, credits: 10, reference: 'more' });
      // sound is asked for again after 5 s
      await until(() => {
        client.send(append(1, 'later'));
        return upstream.received.length > 1;
      });
      expect(upstream.events.slice(0, 2).map(({ event_id }) => event_id)).to.deep.equal(['fits', 'later']);
      await leave(client);
      await gateway.charged(1);
      const seconds = 20 + upstream.received.length - 1;
      await until(async () => Math.abs(((await balance()) ?? 0) - (10.5 - seconds / 100)) < 1e-9);
    });

    it('beside that of other sessions', async () => {
      const { key } = await account(1);
      const first = await open(key);
      first.send(append(60));
      await upstream.got(1);
      const second = await open(key);
      second.send(append(50, 'beside'));
      expect((await second.event('error')).error).to.include({ code: 'insufficient_credits', event_id: 'beside' });
      await leave(second);
      first.socket.terminate();
    });

    it('as far as the budget of its key lasts', async () => {
      const { userId } = await account();
      const key = await gateway.newKey({ userId, budgets: [{ period: 'day', credits: 0.3 }] });
      const client = await open(key);
      client.send(append(20, 'fits'));
      client.send(append(20, 'over'));
      const { status, error } = await client.event('error');
      expect([status, error.code, error.event_id]).to.deep.equal([429, 'insufficient_quota', 'over']);
      expect(upstream.events.map(({ event_id }) => event_id)).to.deep.equal(['fits']);
      await leave(client);
    });
  });

  describe('whose sound is transcribed, too,', () => {
    const update = (model: string) => ({
      type: 'session.update',
      session: { audio: { input: { transcription: { model } } } },
    });

    it('is charged for that by its model, which the upstream says, under the name of its client', async () => {
      const { key, balance } = await account();
      const client = await open(key);
      client.send(update('hear'));
      await upstream.got(1);
      expect(upstream.events[0].session.audio.input.transcription.model).to.equal('gpt-4o-transcribe');
      say({ type: 'session.updated', session: translation({ model: 'gpt-4o-transcribe' }) });
      await client.event('session.updated');
      client.send(append(10));
      await upstream.got(2);
      say(text('Tagus, Douro', 'input'), spoken(10), closed);
      await client.event('session.closed');
      const records = await gateway.charged(2);
      expect(records[0]).to.include({ model: 'interpret', seconds: 10, outputTokens: 200 });
      expect(records[1]).to.include({ model: 'hear', seconds: 10, inputTokens: 100, outputTokens: 4 });
      await until(async () => (await balance()) === 99.85);
      await leave(client);
    });

    it('is admitted at the price of that as soon as it is asked for, with what is not translated yet', async () => {
      const { key } = await account(50);
      const client = await open(key);
      client.send(append(100));
      client.send({ ...update('dear'), event_id: 'late' });
      expect((await client.event('error')).error).to.include({ code: 'insufficient_credits', event_id: 'late' });
      say(spoken(100));
      await client.event(spoken(0).type);
      client.send(update('dear'));
      await upstream.got(2);
      client.send(append(70, 'dear'));
      expect((await client.event('error', 2)).error).to.include({ code: 'insufficient_credits', event_id: 'dear' });
      await leave(client);
    });

    it('is refused by a model that the key may not use', async () => {
      const { userId } = await account();
      const client = await open(await gateway.newKey({ userId, models: ['interpret', 'hear'] }));
      client.send({ ...update('dear'), event_id: 'mine' });
      expect((await client.event('error')).error).to.include({ code: 'model_not_allowed', event_id: 'mine' });
      expect(upstream.received).to.deep.equal([]);
      await leave(client);
    });
  });

  describe('takes nothing that would not be charged:', () => {
    for (const event of [
      { type: 'response.create' },
      { type: 'input_audio_buffer.append', audio: sound(1) },
      { type: 'session.update', session: { model: 'dear' } },
      { audio: sound(1) },
    ]) {
      it(`not ${JSON.stringify(event).slice(0, 60)}`, async () => {
        const { key } = await account();
        const client = await open(key);
        client.send({ ...event, event_id: 'mine' });
        const { status, error } = await client.event('error');
        expect([status, error.code, error.event_id]).to.deep.equal([400, 'invalid_value', 'mine']);
        client.send(close);
        await upstream.got(1);
        expect(upstream.events).to.deep.equal([close]);
        say(closed);
        await leave(client);
      });
    }

    it('not bytes that are no event', async () => {
      const { key } = await account();
      const client = await open(key);
      client.socket.send(Buffer.alloc(48_000), { binary: true });
      expect((await client.event('error')).error.code).to.equal('invalid_json');
      expect(upstream.received).to.deep.equal([]);
      await leave(client);
    });

    it('not a response that its upstream begins', async () => {
      const { key } = await account();
      const client = await open(key);
      say({ type: 'response.created', response: { id: 'resp_1' } });
      expect((await client.event('error')).error.code).to.equal('upstream_invalid_response');
      expect((await client.whenClosed()).code).to.equal(1011);
      await ended();
      expect(await only()).to.include({ ending: 'upstream_failed', endpoint: '/realtime/translations' });
    });

    it('neither at /realtime, whichever side would', async () => {
      const { key } = await account();
      const client = await open(key, { url: `${gateway.url}/realtime?model=interpret` });
      client.send(append(1, 'mine'));
      expect((await client.event('error')).error).to.include({ code: 'invalid_value', event_id: 'mine' });
      expect(upstream.received).to.deep.equal([]);
      say(spoken(1));
      expect((await client.event('error', 2)).error.code).to.equal('upstream_invalid_response');
      await ended();
    });
  });

  it('is refused in its handshake as any other', async () => {
    const { userId, key } = await account();
    const limited = await gateway.newKey({ userId, models: ['other-m'] });
    for (const [url, by, status, code] of [
      [urlOf(), 'sk-nobody', 401, 'invalid_api_key'],
      [urlOf(), limited, 403, 'model_not_allowed'],
      [urlOf('unknown'), key, 404, 'model_not_found'],
      [`${gateway.url}/realtime/translations?call_id=rtc_1`, key, 400, 'invalid_value'],
    ] as const) {
      const refusal = await refusalOf(url, { authorization: `Bearer ${by}` });
      expect([refusal.status, refusal.body.error.code]).to.deep.equal([status, code]);
    }
    expect(upstream.handshakes).to.deep.equal([]);
    upstream.refuse = answer('400 Bad Request', '{"error":{"message":"no","type":"invalid_request_error"}}');
    expect((await refusalOf(urlOf(), { authorization: `Bearer ${key}` })).status).to.equal(400);
    const client = await SocketClient.open(urlOf('other-m'), limited);
    expect(other.handshakes[0]?.url).to.equal('/v1/realtime/translations?model=other-m');
    client.socket.terminate();
  });

  describe('by an ephemeral secret', () => {
    const base = () => `${gateway.url.replace('ws:', 'http:')}/realtime/translations`;
    const post = (path: string, key: string, type: string, body: string) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': type };
      return fetch(`${base()}${path}`, { method: 'POST', headers, body });
    };
    let secrets = 0;
    beforeEach(() => {
      upstream.onRequest = ({ url, body }: HttpRequest, res) => {
        if (url.startsWith('/v1/realtime/translations/calls')) {
          const headers = {
            'content-type': 'application/sdp',
            location: `/v1/realtime/translations/calls/rtc_${secrets}`,
          };
          return void res.writeHead(201, headers).end('v=0\r\n');
        }
        secrets += 1;
        const secret = { value: `ek_translates_${secrets}`, expires_at: Math.floor(Date.now() / 1_000) + 600 };
        const { session } = JSON.parse(body);
        res.writeHead(200, { 'content-type': 'application/json' });
        res.end(JSON.stringify({ ...secret, session: { ...translation(), ...session } }));
      };
    });
    /** As OpenAI's clients send it. */
    const newSecret = async (
      key: string,
      session: object = { model: 'interpret', audio: { output: { language: 'pt' } } },
    ) => {
      const body = { expires_after: { anchor: 'created_at', seconds: 60 }, session };
      const response = await post('/client_secrets', key, 'application/json', JSON.stringify(body));
      expect(response.status).to.equal(200);
      return ((await response.json()) as { readonly value: string }).value;
    };

    it('goes to its upstream with that, and is charged to the account and the key that made it', async () => {
      const { userId, key } = await account();
      const secret = await newSecret(key);
      expect(JSON.parse(upstream.requests[0]?.body ?? '')).to.deep.equal({
        expires_after: { anchor: 'created_at', seconds: 60 },
        session: { model: 'gpt-realtime-translate', audio: { output: { language: 'pt' } } },
      });
      const client = await open(secret, { url: base().replace('http:', 'ws:') });
      expect(upstream.handshakes[0]?.headers.authorization).to.equal(`Bearer ${secret}`);
      client.send(append(3));
      await upstream.got(1);
      await leave(client);
      const [made, record] = await gateway.charged(2);
      expect(made).to.include({ endpoint: '/realtime/translations/client_secrets', model: 'interpret', seconds: 0 });
      expect(record).to.include({ userId, keyId: made?.keyId, model: 'interpret', seconds: 3 });
      const wrong = await refusalOf(urlOf('dear'), { authorization: `Bearer ${secret}` });
      expect([wrong.status, wrong.body.error.param]).to.deep.equal([400, 'model']);
    });

    it('is transcribed by the model of that, at its price', async () => {
      const { key } = await account();
      const secret = await newSecret(key, {
        model: 'interpret',
        audio: { input: { transcription: { model: 'hear' } } },
      });
      upstream.onOpen = () => {};
      const client = await SocketClient.open(base().replace('http:', 'ws:'), secret);
      client.send(append(3));
      await upstream.got(1);
      say(text('Tagus', 'input'));
      await client.event(text('', 'input').type);
      await leave(client);
      const records = (await gateway.charged(3)).slice(1);
      expect(records.map(({ model, seconds }) => [model, seconds])).to.deep.equal([
        ['interpret', 3],
        ['hear', 3],
      ]);
    });

    it('begins a call over WebRTC, whose id is of the path here', async () => {
      const { key } = await account();
      const secret = await newSecret(key);
      const response = await post('/calls', secret, 'application/sdp', 'v=0\r\n');
      expect([response.status, await response.text()]).to.deep.equal([201, 'v=0\r\n']);
      expect(response.headers.get('location')).to.equal(`/v1/realtime/translations/calls/rtc_${secrets}`);
      expect(upstream.requests[1]?.headers.authorization).to.equal(`Bearer ${secret}`);
      const byKey = await post('/calls?model=interpret', key, 'application/sdp', 'v=0\r\n');
      expect([byKey.status, upstream.requests[2]?.url]).to.deep.equal([
        201,
        '/v1/realtime/translations/calls?model=gpt-realtime-translate',
      ]);
    });

    it('is made only for models that the key may use, of which one translates', async () => {
      const { userId } = await account();
      const key = await gateway.newKey({ userId, models: ['interpret', 'hear'] });
      for (const [session, status, code] of [
        [{ model: 'dear' }, 403, 'model_not_allowed'],
        [{ model: 'interpret', audio: { input: { transcription: { model: 'dear' } } } }, 403, 'model_not_allowed'],
        // none of a transcription is that of the translation
        [{ type: 'transcription', audio: { input: { transcription: { model: 'hear' } } } }, 403, 'model_not_allowed'],
      ] as const) {
        const response = await post('/client_secrets', key, 'application/json', JSON.stringify({ session }));
        const { error } = (await response.json()) as { readonly error: { readonly code: string } };
        expect([response.status, error.code]).to.deep.equal([status, code]);
      }
      expect(upstream.requests).to.deep.equal([]);
    });

    it('ends with the key that made it', async () => {
      const { userId } = await account();
      const { id, key } = await gateway.gateway.keys.create({ userId, scopes: ['models'] });
      const secret = await newSecret(key);
      await gateway.gateway.keys.revoke(id, userId);
      expect((await refusalOf(base().replace('http:', 'ws:'), { authorization: `Bearer ${secret}` })).status).to.equal(
        401,
      );
    });
  });
});
