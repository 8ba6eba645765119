import { once } from 'node:events';
import { expect } from 'chai';
import { WebSocket } from 'ws';
import type { Principal } from '../../src/index.ts';
import { whileClockStands } from '../support/clock.ts';
import { until } from '../support/until.ts';
import { untilRead } from '../support/until-read.ts';
import { answerResponse, respond, SocketUpstream } from './socket-upstream.ts';
import { refusalOf, SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

describe('what an account may use over a WebSocket', () => {
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      credits: {
        prices: { '*': { input: 1_000_000, output: 1_000_000 }, free: {} },
        expectedOutputTokens: 1,
      },
      limits: { perKey: ({ userId }) => (userId.startsWith('usr_limited') ? { requestsPerMinute: 3 } : undefined) },
    });
  });
  beforeEach(() => {
    upstream.reset();
    upstream.onEvent = ({ type }, socket) => {
      if (type === 'response.create') respond(socket);
    };
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
  });

  const realtime = () => `${gateway.url}/realtime?model=talk`;

  it('is nothing without credits', async () => {
    const key = await gateway.newKey({ userId: 'usr_poor' });
    const { status, body } = await refusalOf(realtime(), { authorization: `Bearer ${key}` });
    expect([status, body.error.code]).to.deep.equal([402, 'insufficient_credits']);
    expect(upstream.handshakes).to.deep.equal([]);
  });

  it('is nothing without credits in a realtime session, which goes on when there are some', async () => {
    const userId = 'usr_credits';
    const topUp = (reference: string) => gateway.gateway.credits?.topUp({ userId, credits: 30, reference });
    await topUp('once');
    const client = await SocketClient.open(realtime(), await gateway.newKey({ userId }));
    // each costs 30
    client.send({ type: 'response.create' });
    await client.event('response.done');
    for (let count = 1; count <= 2; count += 1) {
      client.send({ type: 'response.create', event_id: `over_${count}` });
      const { status, error } = await client.event('error', count);
      expect(status).to.equal(402);
      expect(error).to.include({
        code: 'insufficient_credits',
        type: 'insufficient_quota',
        event_id: `over_${count}`,
      });
    }
    await topUp('twice');
    await topUp('thrice');
    client.send({ type: 'response.create' });
    await client.event('response.done', 2);
    expect(upstream.received).to.have.length(2);
    client.socket.close();
    await client.whenClosed();
  });

  for (const { path, create, last, responses } of [
    { path: '/realtime?model=free', create: { type: 'response.create' }, last: 'response.done', responses: 3 },
    {
      path: '/responses',
      create: { type: 'response.create', model: 'free', input: 'Name a river' },
      last: 'response.completed',
      responses: 2,
    },
  ]) {
    it(`is a number of requests in a minute at ${path}: over the limit, the client is told when to go on, and keeps the socket`, () =>
      whileClockStands(async () => {
        const userId = `usr_limited_${last}`;
        const key = await gateway.newKey({ userId });
        await gateway.gateway.credits?.topUp({ userId, credits: 1_000, reference: last });
        upstream.onEvent = ({ model }, socket) => void (model ? answerResponse(socket, model) : respond(socket));
        const client = await SocketClient.open(`${gateway.url}${path}`, key);
        // the handshake is a request, with which the first response of a realtime session is admitted
        for (let count = 1; count <= responses; count += 1) {
          client.send(create);
          await client.event(last, count);
        }
        for (let count = 1; count <= 2; count += 1) {
          client.send({ ...create, event_id: `over_${count}` });
          const { status, headers, error } = await client.event('error', count);
          expect(status).to.equal(429);
          expect(error).to.include({
            code: 'rate_limit_exceeded',
            type: 'rate_limit_error',
            event_id: `over_${count}`,
          });
          expect(Number(headers['retry-after'])).to.be.above(0);
        }
        expect(client.closed).to.equal(undefined);
        expect(upstream.received).to.have.length(responses);
        client.socket.close();
        await client.whenClosed();
      }));
  }

  it('is nothing without credits on a socket of responses, which goes on when there are some', async () => {
    const userId = 'usr_topped_up';
    await gateway.gateway.credits?.topUp({ userId, credits: 20, reference: 'thrice' });
    upstream.onEvent = ({ model }, socket) => void answerResponse(socket, model);
    const client = await SocketClient.open(`${gateway.url}/responses`, await gateway.newKey({ userId }));
    const ask = () => client.send({ type: 'response.create', model: 'm', input: 'Name a river' });
    ask();
    await client.event('response.completed');
    ask();
    expect(await client.event('error')).to.deep.include({ status: 402 });
    await gateway.gateway.credits?.topUp({ userId, credits: 1_000, reference: 'later' });
    ask();
    await client.event('response.completed', 2);
    client.socket.close();
    await client.whenClosed();
  });

  it('ends with its key', async () => {
    await gateway.gateway.credits?.topUp({ userId: 'usr_1', credits: 1_000, reference: 'thrice' });
    for (const url of [realtime(), `${gateway.url}/responses`]) {
      const { id, key } = await gateway.gateway.keys.create({ userId: 'usr_1' });
      const client = await SocketClient.open(url, key);
      await gateway.gateway.keys.revoke(id, 'usr_1');
      client.send({ type: 'response.create', model: 'free' });
      expect((await client.event('error')).error.code).to.equal('invalid_api_key');
      expect(await client.whenClosed()).to.deep.equal({ code: 1008, reason: 'invalid_api_key' });
    }
    expect(upstream.received).to.deep.equal([]);
  });

  it('is given back for a response whose client leaves while it is admitted', async () => {
    let wait = Promise.resolve();
    let checks = 0;
    const live = await startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl, maxConcurrency: 1 }],
      authenticate: async () => {
        checks += 1;
        await wait;
        return { userId: 'usr_1' };
      },
    });
    const url = `${live.url}/realtime?model=talk`;
    const first = await SocketClient.open(url, '');
    let goOn = () => {};
    wait = new Promise((resolve) => {
      goOn = resolve;
    });
    first.send({ type: 'response.create' });
    await until(() => checks === 2);
    first.socket.terminate();
    await once(upstream.socket, 'close');
    await untilRead();
    goOn();
    const second = await SocketClient.open(url, '');
    for (let count = 1; count <= 2; count += 1) {
      second.send({ type: 'response.create' });
      await second.event('response.done', count);
    }
    second.socket.close();
    await second.whenClosed();
    await live.close();
    expect(live.usage).to.have.length(2);
  });

  it("ends when the host's own function says so, which is asked again for each response", async () => {
    let principal: Principal | null = { userId: 'usr_1' };
    const live = await startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      authenticate: ({ headers }) => (headers.cookie === 'session=1' ? principal : null),
    });
    const signedIn = { headers: { cookie: 'session=1' } };
    for (const [next, code] of [
      [{ userId: 'usr_1', models: ['other'] }, 'model_not_allowed'],
      [{ userId: 'usr_1', scopes: ['webhooks'] }, 'insufficient_scope'],
      [null, 'invalid_api_key'],
    ] as const) {
      principal = { userId: 'usr_1' };
      const client = new SocketClient(new WebSocket(`${live.url}/realtime?model=talk`, signedIn));
      await once(client.socket, 'open');
      client.send({ type: 'response.create' });
      await client.event('response.done');
      principal = next;
      client.send({ type: 'response.create' });
      expect((await client.event('error')).error.code).to.equal(code);
      expect((await client.whenClosed()).code).to.equal(1008);
    }
    await live.close();
  });
});
