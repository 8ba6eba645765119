import { expect } from 'chai';
import { whileClockStands } from '../support/clock.ts';
import { until } from '../support/until.ts';
import { respond, SocketUpstream } from './socket-upstream.ts';
import { SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

/** An item of some 1,030 tokens. */
const longItem = {
  type: 'conversation.item.create',
  item: { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'a'.repeat(4_000) }] },
};
const create = (event_id: string, response?: object) => ({ type: 'response.create', event_id, response });
const append = { type: 'input_audio_buffer.append', audio: Buffer.alloc(4_800).toString('base64') };

describe('what is reserved for a response of a realtime session', () => {
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  let accounts = 0;
  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      // a credit for a token
      credits: { prices: { '*': { input: 1_000_000, output: 1_000_000 } }, expectedOutputTokens: 1 },
      limits: { perKey: ({ userId }) => (userId.endsWith('_limited') ? { requestsPerMinute: 2 } : undefined) },
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

  const say = (event: object) => upstream.socket.send(JSON.stringify(event));
  /** An account with so many credits. */
  const account = async (credits: number, suffix = '') => {
    accounts += 1;
    const userId = `usr_${accounts}${suffix}`;
    const topUp = (more: number, reference: string) =>
      gateway.gateway.credits?.topUp({ userId, credits: more, reference });
    await topUp(credits, 'first');
    return { topUp, key: await gateway.newKey({ userId }) };
  };
  const open = (key: string) => SocketClient.open(`${gateway.url}/realtime?model=talk`, key);
  const created = () =>
    upstream.events.filter(({ type }) => type === 'response.create').map(({ event_id }) => event_id);
  const leave = async (client: SocketClient) => {
    client.socket.close();
    await client.whenClosed();
  };

  it('is what it reads of the conversation, also for the first', async () => {
    const { key } = await account(500);
    const client = await open(key);
    client.send(longItem);
    client.send(create('first'));
    const { status, error } = await client.event('error');
    expect([status, error.code, error.event_id]).to.deep.equal([402, 'insufficient_credits', 'first']);
    await upstream.got(1);
    expect(created()).to.deep.equal([]);
    await leave(client);
  });

  it('keeps many sockets from asking for more at once than can be paid', async () => {
    const { key } = await account(3_000);
    const clients = await Promise.all(Array.from({ length: 10 }, () => open(key)));
    for (const client of clients) {
      client.send(longItem);
      client.send(create('mine'));
    }
    const refused = () => clients.filter(({ events }) => events.some(({ type }) => type === 'error'));
    await until(() => refused().length + created().length === 10);
    expect([created().length, refused().length]).to.deep.equal([2, 8]);
    for (const client of clients) client.socket.terminate();
  });

  it('is the same for one that the upstream begins by itself, which is cancelled where it does not fit', async () => {
    const { key } = await account(500);
    const client = await open(key);
    client.send(longItem);
    await upstream.got(1);
    say({ type: 'response.created', response: { id: 'resp_heard' } });
    expect((await client.event('error')).error.code).to.equal('insufficient_credits');
    await until(() => upstream.events.some(({ type }) => type === 'response.cancel'));
    await leave(client);
  });

  it('is asked for before sound goes up that may be answered', async () => {
    const { key } = await account(500);
    const client = await open(key);
    client.send(append);
    await upstream.got(1);
    client.send(longItem);
    client.send(append);
    expect((await client.event('error')).error.code).to.equal('insufficient_credits');
    expect(upstream.events.map(({ type }) => type)).to.deep.equal([append.type, longItem.type]);
    await leave(client);
  });

  it('counts as no request beside that of the handshake, also where it was refused at first', () =>
    whileClockStands(async () => {
      const { key, topUp } = await account(500, '_limited');
      upstream.onEvent = ({ type }, socket) => type === 'response.create' && respond(socket);
      const client = await open(key);
      client.send(longItem);
      client.send(create('poor'));
      expect((await client.event('error')).error.event_id).to.equal('poor');
      await topUp(100_000, 'second');
      for (const count of [1, 2]) {
        client.send(create(`rich_${count}`));
        await client.event('response.done', count);
      }
      client.send(create('more'));
      expect((await client.event('error', 2)).error).to.include({ code: 'rate_limit_exceeded', event_id: 'more' });
      expect(created()).to.deep.equal(['rich_1', 'rich_2']);
      await leave(client);
    }));

  describe('for its output', () => {
    /** A session that its upstream says to have. */
    const openWith = async (key: string, session: object) => {
      upstream.onOpen = (socket) => socket.send(JSON.stringify({ type: 'session.created', session }));
      const client = await open(key);
      await client.event('session.created');
      return client;
    };

    for (const name of ['max_output_tokens', 'max_response_output_tokens']) {
      it(`is its own ${name}`, async () => {
        const { key } = await account(500);
        const client = await open(key);
        client.send(create('dear', { [name]: 5_000 }));
        const { error } = await client.event('error');
        expect(error).to.include({
          code: 'insufficient_credits',
          event_id: 'dear',
          param: `response.${name}`,
        });
        expect(error.message).to.match(
          /^This call may cost 500\d credits, and this account has 500 left; lower response/,
        );
        client.send(create('cheap', { [name]: 400 }));
        await until(() => created().length === 1);
        expect(created()).to.deep.equal(['cheap']);
        await leave(client);
      });

      it(`is that of the session where only that has ${name}, as the upstream says it`, async () => {
        const { key } = await account(500);
        const client = await openWith(key, { [name]: 5_000 });
        client.send(create('dear'));
        expect((await client.event('error')).error).to.include({
          ...{ code: 'insufficient_credits', event_id: 'dear', param: `session.${name}` },
        });
        for (const event of [create('small', { [name]: 10 }), create('endless', { [name]: 'inf' })]) client.send(event);
        await until(() => created().length === 2);
        say({ type: 'session.updated', session: { [name]: 300 } });
        await client.event('session.updated');
        client.send(create('updated'));
        await until(() => created().length === 3);
        expect(created()).to.deep.equal(['small', 'endless', 'updated']);
        client.socket.terminate();
      });
    }

    it('is not what the client says the session has', async () => {
      const { key } = await account(500);
      const client = await openWith(key, { max_output_tokens: 5_000 });
      client.send({ type: 'session.update', session: { max_output_tokens: 1 } });
      client.send(create('dear'));
      expect((await client.event('error')).error).to.include({ code: 'insufficient_credits', event_id: 'dear' });
      await leave(client);
    });
  });
});

describe('sound that a realtime session says, where its upstream dies', () => {
  const pcmu = { audio: { output: { format: { type: 'audio/pcmu' } } } };
  const pcm = { audio: { output: { format: { type: 'audio/pcm', rate: 24_000 } } } };
  const [g711Rate, pcmRate] = [8_000, 48_000];

  for (const { name, session, response, bytesPerSecond } of [
    { name: '24 kHz where nothing says otherwise', session: {}, response: {}, bytesPerSecond: pcmRate },
    { name: 'audio/pcmu', session: pcmu, response: {}, bytesPerSecond: g711Rate },
    {
      name: 'audio/pcma',
      session: { audio: { output: { format: { type: 'audio/pcma' } } } },
      response: {},
      bytesPerSecond: g711Rate,
    },
    {
      name: 'g711_ulaw of the beta',
      session: { output_audio_format: 'g711_ulaw' },
      response: {},
      bytesPerSecond: g711Rate,
    },
    { name: 'audio/pcmu of one response', session: pcm, response: pcmu, bytesPerSecond: g711Rate },
    { name: '24 kHz of one response', session: pcmu, response: pcm, bytesPerSecond: pcmRate },
    {
      name: 'g711_alaw of one response of the beta',
      session: { output_audio_format: 'pcm16' },
      response: { output_audio_format: 'g711_alaw' },
      bytesPerSecond: g711Rate,
    },
  ]) {
    it(`is charged by its length: ${name}`, async () => {
      const upstream = await SocketUpstream.start();
      const gateway = await startSocketGateway({ upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }] });
      const delta = Buffer.alloc(bytesPerSecond).toString('base64');
      upstream.onOpen = (socket) => socket.send(JSON.stringify({ type: 'session.created', session }));
      upstream.onEvent = (_event, socket) => {
        socket.send(JSON.stringify({ type: 'response.created', response: { id: 'resp_said', ...response } }));
        for (let second = 1; second <= 5; second += 1) {
          socket.send(JSON.stringify({ type: 'response.output_audio.delta', response_id: 'resp_said', delta }));
        }
      };
      const client = await SocketClient.open(`${gateway.url}/realtime?model=talk`, gateway.key);
      client.send({ type: 'response.create' });
      await client.event('response.output_audio.delta', 5);
      upstream.socket.terminate();
      const [record] = await gateway.charged(1);
      expect(record).to.include({ estimated: true, ending: 'upstream_failed' });
      // 20 tokens a second
      expect(record?.outputTokens).to.be.within(100, 105);
      await gateway.close();
      await upstream.close();
    });
  }
});
