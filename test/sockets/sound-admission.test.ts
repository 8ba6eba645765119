import { expect } from 'chai';
import { until } from '../support/until.ts';
import { respond, SocketUpstream } from './socket-upstream.ts';
import { SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

const transcription = 'conversation.item.input_audio_transcription';
/** G.711, which has 8,000 bytes a second. */
const sound = (seconds: number) => Buffer.alloc(seconds * 8_000).toString('base64');
const heardBy = (model: string | null) => ({
  type: 'realtime',
  audio: { input: { transcription: model === null ? null : { model }, format: { type: 'audio/pcmu' } } },
});
const append = (seconds: number, event_id?: string) => ({
  type: 'input_audio_buffer.append',
  audio: sound(seconds),
  event_id,
});
const item = (seconds: number, event_id?: string) => ({
  type: 'conversation.item.create',
  item: { type: 'message', role: 'user', content: [{ type: 'input_audio', audio: sound(seconds) }] },
  event_id,
});
const commit = { type: 'input_audio_buffer.commit' };
const clear = { type: 'input_audio_buffer.clear' };

describe('the sound of a realtime session that is transcribed at a price', () => {
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  let accounts = 0;
  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl, models: ['talk', 'hear', 'dear'] }],
      // a credit for 100 s
      credits: { prices: { '*': {}, hear: { second: 0.01 }, dear: { second: 1 } } },
      limits: { perKey: { requestsPerMinute: 2 } },
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
  /** An account with so many credits. */
  const account = async (credits: number) => {
    accounts += 1;
    const userId = `usr_${accounts}`;
    await gateway.gateway.credits?.topUp({ userId, credits, reference: userId });
    const balance = async () => (await gateway.gateway.credits?.balance(userId))?.creditsRemaining;
    return { userId, balance, key: await gateway.newKey({ userId }) };
  };
  const open = async (key: string, model: string | null = 'hear') => {
    upstream.onOpen = (socket) => socket.send(JSON.stringify({ type: 'session.created', session: heardBy(model) }));
    const client = await SocketClient.open(`${gateway.url}/realtime?model=talk`, key);
    await client.event('session.created');
    return client;
  };
  const leave = async (client: SocketClient) => {
    const { socket } = upstream;
    client.socket.close();
    await until(() => socket.readyState === socket.CLOSED);
  };
  const transcribed = (item_id: string, seconds: number) => ({
    ...{ type: `${transcription}.completed`, item_id, transcript: 'Tagus' },
    usage: { type: 'duration', seconds },
  });
  const lengthOf = (audio: string) => Buffer.from(audio, 'base64').length / 8_000;

  /** Transcribes all that comes when it is committed: by the client, at once, or as an item. */
  const transcribe = (commits: 'client' | 'itself') => {
    let items = 0;
    let seconds = 0;
    upstream.onEvent = (event) => {
      if (event.type === 'input_audio_buffer.append') seconds += lengthOf(event.audio);
      const made = event.item?.content[0].audio;
      items += 1;
      const id = `item_${items}`;
      if (made) {
        say({ type: 'conversation.item.added', item: { id, content: [{ type: 'input_audio' }] } });
        say(transcribed(id, lengthOf(made)));
      } else if (seconds > 0 && (commits === 'itself' || event.type === commit.type)) {
        say({ type: 'input_audio_buffer.committed', item_id: id }, transcribed(id, seconds));
        seconds = 0;
      } else if (event.type === commit.type) {
        say({ type: 'error', error: { code: 'input_audio_buffer_commit_empty', message: 'too small' } });
      }
    };
  };

  for (const { name, commits, send } of [
    {
      name: 'the client commits',
      commits: 'client',
      send: (seconds: number, id: string) => [append(seconds, id), commit],
    },
    { name: 'the upstream commits', commits: 'itself', send: (seconds: number, id: string) => [append(seconds, id)] },
    {
      name: 'the client makes an item of',
      commits: 'client',
      send: (seconds: number, id: string) => [item(seconds, id)],
    },
  ] as const) {
    it(`goes up only as far as credits last, where ${name} it`, async () => {
      const { key, balance } = await account(0.03);
      const client = await open(key);
      transcribe(commits);
      for (const event of send(2, 'fits')) client.send(event);
      await client.event(`${transcription}.completed`);
      for (const event of send(1_000, 'attack')) client.send(event);
      await client.event('error');
      // an upstream may refuse the commit of nothing, too
      const { status, error } = client.events.find(({ type }) => type === 'error');
      expect([status, error.code, error.event_id]).to.deep.equal([402, 'insufficient_credits', 'attack']);
      // the session goes on
      client.send({ type: 'session.update', session: { type: 'realtime', instructions: 'Be brief' } });
      await until(() => upstream.events.some(({ type }) => type === 'session.update'));
      expect(upstream.events.map(({ event_id }) => event_id))
        .to.include('fits')
        .and.not.include('attack');
      await until(async () => (await balance()) === 0.01);
      expect(gateway.usage.map(({ seconds }) => seconds)).to.deep.equal([2]);
      await leave(client);
    });
  }

  it('goes up only as far as the budget of its key lasts', async () => {
    const { userId } = await account(100);
    const key = await gateway.newKey({ userId, budgets: [{ period: 'day', credits: 0.05 }] });
    const client = await open(key);
    client.send(append(2, 'fits'));
    await upstream.got(1);
    client.send(append(10, 'over'));
    const { status, error } = await client.event('error');
    expect([status, error.code, error.event_id]).to.deep.equal([429, 'insufficient_quota', 'over']);
    expect(upstream.received).to.have.length(1);
    await leave(client);
  });

  it('is admitted when a model is asked for that may transcribe it, and at the price of each that may', async () => {
    const { key } = await account(2);
    const client = await open(key, null);
    client.send(append(300));
    await upstream.got(1);
    client.send({ type: 'session.update', event_id: 'late', session: heardBy('hear') });
    expect((await client.event('error')).error).to.include({ code: 'insufficient_credits', event_id: 'late' });
    client.send(clear);
    await upstream.got(2);
    say({ type: 'input_audio_buffer.cleared' });
    await client.event('input_audio_buffer.cleared');
    client.send({ type: 'session.update', session: heardBy('dear') });
    client.send(append(10, 'dear'));
    expect((await client.event('error', 2)).error).to.include({ code: 'insufficient_credits', event_id: 'dear' });
    expect(upstream.received).to.have.length(3);
    await leave(client);
  });

  for (const { name, type, session } of [
    { name: 'a session', type: 'session.update', session: heardBy('hear') },
    {
      name: 'a transcription session of earlier clients',
      type: 'transcription_session.update',
      session: { input_audio_format: 'g711_ulaw', input_audio_transcription: { model: 'hear' } },
    },
  ]) {
    it(`is as long as in the format that ${name} asks for, until the upstream says which it has`, async () => {
      const { key } = await account(2);
      upstream.onOpen = (socket) => socket.send(JSON.stringify({ type: 'session.created', session: {} }));
      const client = await SocketClient.open(`${gateway.url}/realtime?model=talk`, key);
      await client.event('session.created');
      client.send({ type, session });
      client.send(append(250, 'long'));
      expect((await client.event('error')).error).to.include({ code: 'insufficient_credits', event_id: 'long' });
      await leave(client);
    });
  }

  it('is admitted at the price of no model that an event named which was refused', async () => {
    const { key } = await account(2);
    const client = await open(key);
    const session = { ...heardBy('dear'), tools: [{ type: 'file_search', vector_store_ids: ['vs_of_nobody'] }] };
    client.send({ type: 'session.update', event_id: 'refused', session });
    expect((await client.event('error')).error).to.include({ code: 'vector_store_not_found', event_id: 'refused' });
    client.send(append(10, 'fits'));
    await until(() => upstream.events.some(({ event_id }) => event_id === 'fits'));
    await leave(client);
  });

  it('counts as no request, however long it is', async () => {
    const { key, balance } = await account(10);
    const client = await open(key);
    for (let count = 1; count <= 6; count += 1) client.send(append(50));
    client.send(commit);
    await upstream.got(7);
    say({ type: 'input_audio_buffer.committed', item_id: 'item_1' }, transcribed('item_1', 300));
    await client.event(`${transcription}.completed`);
    client.send({ type: 'response.create' });
    await upstream.got(8);
    respond(upstream.socket);
    await client.event('response.done');
    expect(client.events.filter(({ type }) => type === 'error')).to.deep.equal([]);
    await until(async () => (await balance()) === 7);
    await leave(client);
  });

  for (const { name, end } of [
    {
      name: 'is cleared',
      end: async (client: SocketClient, socket: SocketUpstream['socket']) => {
        client.send(clear);
        await until(() => upstream.events.some(({ type }) => type === clear.type));
        socket.send(JSON.stringify({ type: 'input_audio_buffer.cleared' }));
        await client.event('input_audio_buffer.cleared');
      },
    },
    {
      name: 'ends with its session',
      end: async (client: SocketClient, socket: SocketUpstream['socket']) => {
        client.socket.close();
        await until(() => socket.readyState === socket.CLOSED);
      },
    },
  ]) {
    it(`is reserved until it ${name}`, async () => {
      const { key } = await account(1.3);
      const first = await open(key);
      const { socket } = upstream;
      first.send(append(100));
      await upstream.got(1);
      const second = await open(key);
      second.send(item(100, 'early'));
      expect((await second.event('error')).error).to.include({ code: 'insufficient_credits', event_id: 'early' });
      await end(first, socket);
      second.send(item(100, 'later'));
      await until(() => upstream.events.some(({ event_id }) => event_id === 'later'));
      await leave(second);
      first.socket.terminate();
    });
  }

  it('stays reserved behind a part that the upstream commits by itself', async () => {
    const { key, balance } = await account(1.3);
    const first = await open(key);
    first.send(append(100));
    await upstream.got(1);
    say({ type: 'input_audio_buffer.speech_started', item_id: 'item_1', audio_start_ms: 0 });
    say({ type: 'input_audio_buffer.speech_stopped', item_id: 'item_1', audio_end_ms: 10_000 });
    say({ type: 'input_audio_buffer.committed', item_id: 'item_1' }, transcribed('item_1', 10));
    await until(async () => (await balance()) === 1.2);
    const second = await open(key);
    second.send(item(60, 'beside'));
    expect((await second.event('error')).error).to.include({ code: 'insufficient_credits', event_id: 'beside' });
    await leave(second);
    first.socket.terminate();
  });
});
