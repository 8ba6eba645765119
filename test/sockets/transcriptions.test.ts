import { once } from 'node:events';
import { expect } from 'chai';
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { GatewayError, type UsageRecord } from '../../src/index.ts';
import { HeldClock } from '../support/clock.ts';
import { until } from '../support/until.ts';
import { respond, SocketUpstream } from './socket-upstream.ts';
import { SocketClient, type SocketGateway, startSocketGateway, startSockets } from './support.ts';

const transcription = 'conversation.item.input_audio_transcription';
/** Sound of this many seconds, in base64. */
const sound = (seconds: number, bytesPerSecond = 48_000) => Buffer.alloc(seconds * bytesPerSecond).toString('base64');
const heardBy = (model: string | null, format?: object) => ({
  type: 'realtime',
  audio: { input: { transcription: model === null ? null : { model }, ...(format && { format }) } },
});
const usage = { type: 'tokens', input_tokens: 40, output_tokens: 6, total_tokens: 46 };

describe('the transcription of what a user says in a realtime session', () => {
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({
      upstreams: [
        {
          name: 'up',
          baseUrl: upstream.baseUrl,
          models: ['gpt-realtime', 'whisper-1', 'cheap'],
          aliases: { talk: 'gpt-realtime', hear: 'gpt-4o-transcribe' },
        },
      ],
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

  const say = (...events: object[]) => {
    for (const event of events) upstream.socket.send(JSON.stringify(event));
  };
  const committed = (item_id: string) => ({ type: 'input_audio_buffer.committed', item_id });
  const delta = (item_id: string, text: string) => ({ type: `${transcription}.delta`, item_id, delta: text });
  const completed = (item_id: string, of: object | null = usage) => ({
    ...{ type: `${transcription}.completed`, item_id, content_index: 0, transcript: 'Tagus, Douro', usage: of },
  });
  /** A session whose upstream says what it is. */
  const open = async (
    session: object = heardBy('gpt-4o-transcribe'),
    query = '?model=talk',
    key = gateway.key,
    url = gateway.url,
  ) => {
    upstream.onOpen = (socket) => socket.send(JSON.stringify({ type: 'session.created', session }));
    const client = await SocketClient.open(`${url}/realtime${query}`, key);
    await client.event('session.created');
    return client;
  };
  const append = (client: SocketClient, audio: string) => client.send({ type: 'input_audio_buffer.append', audio });
  /** Has the client commit so much sound, and the upstream confirm it. */
  const commit = async (client: SocketClient, itemId: string, audio: string) => {
    const count = upstream.received.length;
    append(client, audio);
    client.send({ type: 'input_audio_buffer.commit' });
    await upstream.got(count + 2);
    say(committed(itemId));
    await client.event('input_audio_buffer.committed');
  };
  const only = async (): Promise<UsageRecord> => (await gateway.charged(1))[0] as UsageRecord;
  const closed = () => until(() => upstream.socket.readyState === upstream.socket.CLOSED);
  const leave = async (client: SocketClient) => {
    client.socket.close();
    await closed();
  };

  it('is waited for when its client leaves after a part of the text', async () => {
    const client = await open();
    await commit(client, 'item_1', sound(2));
    say(delta('item_1', 'Tagus'));
    await client.event(`${transcription}.delta`);
    client.socket.close();
    await client.whenClosed();
    say(completed('item_1'));
    expect(await only()).to.include({
      ...{
        endpoint: '/realtime',
        model: 'hear',
        inputTokens: 40,
        outputTokens: 6,
        estimated: false,
        ending: 'complete',
      },
    });
    await closed();
    expect(gateway.usage).to.have.length(1);
  });

  it('is waited for when its client leaves right behind its commit', async () => {
    const client = await open();
    append(client, sound(1));
    client.send({ type: 'input_audio_buffer.commit' });
    client.socket.close();
    await upstream.got(2);
    say(committed('item_1'));
    say(completed('item_1'));
    expect(await only()).to.include({ model: 'hear', inputTokens: 40, estimated: false });
    await closed();
  });

  for (const { name, format, bytesPerSecond } of [
    { name: '16 bits', format: undefined, bytesPerSecond: 48_000 },
    { name: 'G.711', format: { type: 'audio/pcmu' }, bytesPerSecond: 8_000 },
  ]) {
    it(`is charged by the length of its sound (${name}) where the upstream dies`, async () => {
      const client = await open(heardBy('gpt-4o-transcribe', format));
      await commit(client, 'item_1', sound(3, bytesPerSecond));
      say(delta('item_1', 'Tagus, Douro'));
      await client.event(`${transcription}.delta`);
      upstream.socket.terminate();
      expect(await client.whenClosed()).to.include({ code: 1011 });
      expect(await only()).to.include({
        ...{ model: 'hear', inputTokens: 30, outputTokens: 4, seconds: 3, estimated: true, ending: 'upstream_failed' },
      });
    });
  }

  it('is charged by the length of its sound where its client has left and the upstream says nothing more', async () => {
    const firstByte = 50_000;
    const upstreams = [{ name: 'up', baseUrl: upstream.baseUrl, timeouts: { firstByte } }];
    const impatient = await startSocketGateway({ upstreams });
    const clock = new HeldClock(firstByte);
    try {
      const client = await open(undefined, '?model=gpt-realtime', impatient.key, impatient.url);
      await commit(client, 'item_1', sound(2));
      client.socket.close();
      await client.whenClosed();
      expect(impatient.usage).to.have.length(0);
      clock.turn(firstByte);
    } finally {
      clock.release();
    }
    const [record] = await impatient.charged(1);
    expect(record).to.include({ model: 'gpt-4o-transcribe', inputTokens: 20, seconds: 2, estimated: true });
    await impatient.close();
  });

  it('is waited for where the gateway ends the session, and charged by the length of its sound where the upstream then dies', async () => {
    const { id, key } = await gateway.gateway.keys.create({ userId: 'usr_1', scopes: ['models'] });
    const client = await open(heardBy('gpt-4o-transcribe'), '?model=talk', key);
    await commit(client, 'item_1', sound(2));
    await gateway.gateway.keys.revoke(id, 'usr_1');
    client.send({ type: 'response.create' });
    expect(await client.whenClosed()).to.deep.equal({ code: 1008, reason: 'invalid_api_key' });
    expect([upstream.socket.readyState, gateway.usage]).to.deep.equal([upstream.socket.OPEN, []]);
    upstream.socket.terminate();
    expect(await only()).to.include({ model: 'hear', inputTokens: 20, seconds: 2, estimated: true });
  });

  it('is estimated where its end says no usage', async () => {
    const client = await open();
    await commit(client, 'item_1', sound(2));
    say(completed('item_1', null));
    expect(await only()).to.include({ model: 'hear', inputTokens: 20, outputTokens: 4, seconds: 2, estimated: true });
    await leave(client);
  });

  it('costs nothing where it fails, and is waited for no longer', async () => {
    const client = await open();
    await commit(client, 'item_1', sound(2));
    say({ type: `${transcription}.failed`, item_id: 'item_1', error: { code: 'audio_unintelligible' } });
    await client.event(`${transcription}.failed`);
    await leave(client);
    expect(gateway.usage).to.deep.equal([]);
  });

  it('is none where the upstream refuses the commit', async () => {
    const client = await open();
    client.send({ type: 'input_audio_buffer.commit', event_id: 'mine' });
    await upstream.got(1);
    say({ type: 'error', error: { code: 'input_audio_buffer_commit_empty', message: 'too small', event_id: 'mine' } });
    await client.event('error');
    await leave(client);
    expect(gateway.usage).to.deep.equal([]);
  });

  it('is none where the session does not transcribe', async () => {
    const client = await open(heardBy(null));
    await commit(client, 'item_1', sound(2));
    await leave(client);
    expect(gateway.usage).to.deep.equal([]);
  });

  it('is as long as its sound was when it went up, whatever the format of the session becomes', async () => {
    const client = await open(heardBy('gpt-4o-transcribe', { type: 'audio/pcmu' }));
    append(client, sound(12, 8_000));
    await upstream.got(1);
    const session = heardBy('gpt-4o-transcribe', { type: 'audio/pcm', rate: 24_000 });
    say({ type: 'session.updated', session });
    await client.event('session.updated');
    // sound that follows a change at once is counted by the format that was asked for
    client.send({ type: 'session.update', session: heardBy('gpt-4o-transcribe', { type: 'audio/pcma' }) });
    await upstream.got(2);
    await commit(client, 'item_1', sound(6, 8_000));
    say(completed('item_1', null));
    expect(await only()).to.include({ seconds: 18, estimated: true });
    await leave(client);
  });

  it('is without what was cleared before it, but not where the upstream has refused that', async () => {
    const client = await open();
    const clear = { type: 'input_audio_buffer.clear' };
    append(client, sound(9));
    client.send(clear);
    await upstream.got(2);
    say({ type: 'input_audio_buffer.cleared' });
    await client.event('input_audio_buffer.cleared');
    append(client, sound(4));
    client.send({ ...clear, event_id: 'evt_c' });
    await upstream.got(4);
    say({ type: 'error', error: { type: 'invalid_request_error', message: 'No', event_id: 'evt_c' } });
    await client.event('error');
    await commit(client, 'item_1', sound(2));
    say(completed('item_1', null));
    expect(await only()).to.include({ seconds: 6, estimated: true });
    await leave(client);
  });

  it('of what the upstream commits by itself is as long as it says that somebody spoke', async () => {
    const client = await open();
    append(client, sound(10));
    await upstream.got(1);
    say({ type: 'input_audio_buffer.speech_started', item_id: 'item_1', audio_start_ms: 1_000 });
    say({ type: 'input_audio_buffer.speech_stopped', item_id: 'item_1', audio_end_ms: 5_500 });
    say(committed('item_1'), completed('item_1', null));
    expect(await only()).to.include({ model: 'hear', inputTokens: 45, seconds: 4.5, estimated: true });
    await leave(client);
  });

  it('of an item that the client makes is charged by the length of that', async () => {
    const client = await open();
    const content = [{ type: 'input_audio', audio: sound(4) }];
    client.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } });
    await upstream.got(1);
    say({
      type: 'conversation.item.added',
      item: { id: 'item_made', role: 'user', content: [{ type: 'input_audio' }] },
    });
    say(delta('item_made', 'Tagus'));
    await client.event(`${transcription}.delta`);
    client.socket.close();
    const { seconds, ...record } = await only();
    expect(record).to.include({ model: 'hear', estimated: true, ending: 'client_left' });
    expect(seconds).to.be.closeTo(4, 0.01);
  });

  it('is charged beside the responses of the session', async () => {
    const client = await open();
    await commit(client, 'item_1', sound(2));
    client.send({ type: 'response.create' });
    await upstream.got(3);
    respond(upstream.socket);
    say(delta('item_1', 'Tagus'), completed('item_1', { type: 'duration', seconds: 2.5 }));
    const records = await gateway.charged(2);
    expect(records[0]).to.include({ model: 'talk', inputTokens: 20, outputTokens: 10, seconds: 0 });
    expect(records[1]).to.include({ model: 'hear', inputTokens: 0, seconds: 2.5, estimated: false });
    await leave(client);
  });

  it('is admitted as a response is: without credits for more, it is charged, and more sound is refused', async () => {
    const records: UsageRecord[] = [];
    let admitted = 0;
    const { url, proxy, drain, close } = await startSockets(
      upstream,
      {
        admissionChecks: [
          (_call, _tokens, { counts }) => {
            // the sound itself is paid for
            if (counts === 'nothing') return undefined;
            admitted += 1;
            if (admitted > 1) throw new GatewayError('insufficient_credits', 'none left');
            return undefined;
          },
        ],
        usageRecorder: { opened() {}, closed: (record) => void records.push(record), dropped() {} },
      },
      { maxSocketMessageBytes: 1024 ** 2 },
    );
    const client = await open(undefined, '?model=gpt-realtime', 'any', url);
    await commit(client, 'item_1', sound(2));
    append(client, sound(1));
    expect((await client.event('error')).error.code).to.equal('insufficient_credits');
    expect([client.closed, upstream.received.length]).to.deep.equal([undefined, 2]);
    upstream.socket.terminate();
    await until(() => records.length === 1);
    expect(records[0]).to.include({ model: 'gpt-4o-transcribe', seconds: 2, estimated: true });
    await drain();
    close();
    await proxy.close();
  });

  describe('by the model', () => {
    const update = (model: string) => ({ type: 'session.update', session: heardBy(model) });
    const updated = (model: string) => ({ type: 'session.updated', session: heardBy(model) });

    it('that the upstream has, and not by one that it refuses', async () => {
      const client = await open();
      client.send(update('cheap'));
      await upstream.got(1);
      say({ type: 'error', error: { code: 'invalid_value', message: 'no such model' } });
      await client.event('error');
      await commit(client, 'item_1', sound(1));
      say(completed('item_1'));
      expect(await only()).to.include({ model: 'hear' });
      await leave(client);
    });

    it('that it had at the commit, and not by one that comes after it', async () => {
      const client = await open();
      await commit(client, 'item_1', sound(1));
      client.send(update('cheap'));
      await upstream.got(3);
      say(updated('cheap'));
      await client.event('session.updated');
      say(completed('item_1'));
      expect(await only()).to.include({ model: 'hear' });
      await commit(client, 'item_2', sound(1));
      say(completed('item_2'));
      expect((await gateway.charged(2))[1]).to.include({ model: 'cheap' });
      await leave(client);
    });

    it('by the name that its client gave it, also where the upstream says its snapshot', async () => {
      const client = await open(heardBy(null));
      client.send(update('hear'));
      await upstream.got(1);
      expect(upstream.events[0].session.audio.input.transcription.model).to.equal('gpt-4o-transcribe');
      say(updated('gpt-4o-transcribe-2025-03-20'));
      await client.event('session.updated');
      await commit(client, 'item_1', sound(1));
      say(completed('item_1'));
      expect(await only()).to.include({ model: 'hear' });
      await leave(client);
    });

    for (const type of ['transcription_session.created', 'transcription_session.updated']) {
      it(`of a session that only transcribes, as ${type} says it`, async () => {
        const session = { input_audio_format: 'g711_ulaw', input_audio_transcription: { model: 'whisper-1' } };
        upstream.onOpen = (socket) => socket.send(JSON.stringify({ type, session }));
        const client = await SocketClient.open(`${gateway.url}/realtime?intent=transcription`, gateway.key);
        await client.event(type);
        expect(upstream.handshakes[0]?.url).to.equal('/v1/realtime?intent=transcription');
        await commit(client, 'item_1', sound(5, 8_000));
        client.socket.close();
        await client.whenClosed();
        upstream.socket.terminate();
        expect(await only()).to.include({ model: 'whisper-1', seconds: 5, inputTokens: 50, estimated: true });
      });
    }

    it('is refused where the key may not use it', async () => {
      const client = await open(heardBy(null), '?model=talk', await gateway.newKey({ models: ['talk', 'hear'] }));
      for (const session of [heardBy('whisper-1'), { input_audio_transcription: { model: 'whisper-1' } }]) {
        client.send({ type: 'session.update', event_id: 'mine', session });
      }
      const { error } = await client.event('error', 2);
      expect(error).to.include({ code: 'model_not_allowed', event_id: 'mine' });
      client.send({ ...update('hear'), event_id: 'next' });
      await upstream.got(1);
      expect(upstream.events.map(({ event_id }) => event_id)).to.deep.equal(['next']);
      await leave(client);
    });
  });

  describe('by the model of an ephemeral secret', () => {
    let secrets = 0;
    const provide = (answer: (session: object, secret: object) => object) => {
      upstream.onRequest = ({ body }, res) => {
        secrets += 1;
        const secret = { value: `ek_hears_${secrets}`, expires_at: Math.floor(Date.now() / 1_000) + 600 };
        const sent = JSON.parse(body);
        res.writeHead(200, { 'content-type': 'application/json' });
        res.end(JSON.stringify(answer(sent.session ?? sent, secret)));
      };
    };
    const base = () => gateway.url.replace('ws:', 'http:');
    const officialWith = (apiKey: string) => new OpenAI({ apiKey, baseURL: base(), maxRetries: 0 });

    it('is charged at the price of that, of the official client', async () => {
      provide((session, secret) => ({ ...secret, session }));
      const { value } = await officialWith(gateway.key).realtime.clientSecrets.create({
        session: { type: 'realtime', model: 'talk', audio: { input: { transcription: { model: 'hear' } } } },
      });
      const client = new OpenAIRealtimeWS(
        { model: 'talk', options: gateway.trust },
        new OpenAI({ apiKey: value, baseURL: gateway.secure.baseURL }),
      );
      await once(client.socket, 'open');
      const heard = once(client.socket, 'message');
      say(completed('item_1'));
      await heard;
      const records = await gateway.charged(2);
      expect(records.map(({ endpoint, model }) => [endpoint, model])).to.deep.equal([
        ['/realtime/client_secrets', 'talk'],
        ['/realtime', 'hear'],
      ]);
      client.close();
      await once(upstream.socket, 'close');
    });

    it('is charged at the price of that, of clients of the beta', async () => {
      provide((session, secret) => ({ ...session, client_secret: secret }));
      const { client_secret } = await officialWith(gateway.key).beta.realtime.sessions.create({
        ...{ model: 'talk' as 'gpt-4o-realtime-preview', input_audio_transcription: { model: 'hear' } },
      });
      const client = await SocketClient.open(`${gateway.url}/realtime`, client_secret.value);
      await until(() => upstream.sockets.length === 1);
      append(client, sound(2));
      client.send({ type: 'input_audio_buffer.commit' });
      await upstream.got(2);
      say(committed('item_1'));
      await client.event('input_audio_buffer.committed');
      upstream.socket.terminate();
      expect((await gateway.charged(2))[1]).to.include({ model: 'hear', seconds: 2, estimated: true });
    });

    it('is checked when the secret is made', async () => {
      provide((session, secret) => ({ ...secret, session }));
      const limited = officialWith(await gateway.newKey({ models: ['talk'] }));
      const refused = await limited.realtime.clientSecrets
        .create({
          session: { type: 'realtime', model: 'talk', audio: { input: { transcription: { model: 'whisper-1' } } } },
        })
        .catch((error) => error);
      expect([refused.status, refused.code]).to.deep.equal([403, 'model_not_allowed']);
      const session = {
        ...{ type: 'realtime', model: 'talk', audio: { input: { transcription: { model: 'hear' } } } },
        input_audio_transcription: { model: 'cheap' },
      };
      const two = await officialWith(gateway.key)
        .realtime.clientSecrets.create({ session: session as { type: 'realtime' } })
        .catch((error) => error);
      expect([two.status, two.code]).to.deep.equal([400, 'invalid_value']);
      expect(upstream.requests).to.deep.equal([]);
    });
  });

  it('of a call over WebRTC is charged where a socket listens, by what the upstream says', async () => {
    upstream.onRequest = (_request, res) =>
      void res
        .writeHead(201, { 'content-type': 'application/sdp', location: '/v1/realtime/calls/rtc_heard' })
        .end('v=0');
    await fetch(`${gateway.url.replace('ws:', 'http:')}/realtime/calls?model=talk`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/sdp' },
      body: 'v=0\r\n',
    });
    const client = await open(heardBy('gpt-4o-transcribe'), '?call_id=rtc_heard');
    say({ type: 'input_audio_buffer.speech_started', item_id: 'item_1', audio_start_ms: 0 });
    say({ type: 'input_audio_buffer.speech_stopped', item_id: 'item_1', audio_end_ms: 3_000 });
    say(committed('item_1'));
    await client.event('input_audio_buffer.committed');
    upstream.socket.terminate();
    const [, record] = await gateway.charged(2);
    expect(record).to.include({ endpoint: '/realtime', model: 'hear', seconds: 3, inputTokens: 30 });
  });
});
