import { expect } from 'chai';
import { GatewayError, type UsageRecord } from '../../src/index.ts';
import { until } from '../support/until.ts';
import { untilRead } from '../support/until-read.ts';
import { answerResponse, realtimeUsage, respond, SocketUpstream } from './socket-upstream.ts';
import { SocketClient, startSockets } from './support.ts';

const again = { 'retry-after': '9', 'retry-after-ms': '9000' };

/** What limits, quotas, budgets and credits refuse with. */
const refusals = [
  { code: 'rate_limit_exceeded', status: 429, headers: again },
  { code: 'insufficient_quota', status: 429, headers: { 'x-should-retry': 'false' } },
  { code: 'insufficient_credits', status: 402, headers: { 'x-should-retry': 'false' } },
] as const;

const endpoints = [
  {
    path: '/realtime?model=m',
    create: { type: 'response.create' },
    last: 'response.done',
    tokens: realtimeUsage.total_tokens,
  },
  {
    path: '/responses',
    create: { type: 'response.create', model: 'm', input: 'Hi', store: false },
    last: 'response.completed',
    tokens: 18,
  },
] as const;

const sound = { type: 'input_audio_buffer.append', audio: 'QUJD' };

describe('a response that is refused on a WebSocket', () => {
  let upstream: SocketUpstream;
  let sockets: Awaited<ReturnType<typeof startSockets>>;
  let records: UsageRecord[];
  let refusal: (typeof refusals)[number] | undefined;
  let asked: number;
  before(async () => {
    upstream = await SocketUpstream.start();
    sockets = await startSockets(
      upstream,
      {
        admissionChecks: [
          () => {
            asked += 1;
            if (refusal) throw new GatewayError(refusal.code, 'not now', { headers: refusal.headers });
            return undefined;
          },
        ],
        usageRecorder: { opened() {}, closed: (record) => void records.push(record), dropped() {} },
      },
      {},
    );
  });
  beforeEach(() => {
    upstream.reset();
    records = [];
    refusal = undefined;
    asked = 0;
  });
  after(async () => {
    await sockets.drain();
    sockets.close();
    await upstream.close();
  });

  const answerAll = (): void => {
    upstream.onEvent = ({ type, model }, socket) => {
      if (type === 'response.create') model === undefined ? respond(socket) : answerResponse(socket, model);
    };
  };
  const close = async (client: SocketClient) => {
    client.socket.close();
    await client.whenClosed();
  };

  for (const { path, create, last, tokens } of endpoints) {
    for (const each of refusals) {
      const { code, status, headers } = each;

      it(`${path}, ${code}: is an error event that says when to try again, and a later one is answered`, async () => {
        answerAll();
        const client = await SocketClient.open(`${sockets.url}${path}`, 'key');
        client.send(create);
        await client.event(last);
        refusal = each;
        for (let count = 1; count <= 3; count += 1) {
          client.send({ ...create, event_id: `no_${count}` });
          const event = await client.event('error', count);
          expect(event).to.deep.include({ status, headers });
          expect(event.error).to.include({ code, event_id: `no_${count}` });
        }
        refusal = undefined;
        client.send(create);
        await client.event(last, 2);
        expect(upstream.received).to.have.length(2);
        await close(client);
        expect(records.map(({ ending, estimated }) => [ending, estimated])).to.deep.equal([
          ['complete', false],
          ['complete', false],
        ]);
      });
    }

    it(`${path}: leaves the one under way as it is, which is charged exactly`, async () => {
      const client = await SocketClient.open(`${sockets.url}${path}`, 'key');
      client.send(create);
      await upstream.got(1);
      refusal = refusals[2];
      client.send(create);
      const code = path === '/responses' ? 'response_in_progress' : 'insufficient_credits';
      expect((await client.event('error')).error.code).to.equal(code);
      if (path === '/responses') answerResponse(upstream.socket, 'm');
      else respond(upstream.socket);
      await client.event(last);
      await close(client);
      expect(records.map(({ inputTokens, outputTokens }) => inputTokens + outputTokens)).to.deep.equal([tokens]);
    });
  }

  for (const each of refusals) {
    it(`${each.code}: sound that may lead to it is refused once, goes no further, and goes up again later`, async () => {
      answerAll();
      const client = await SocketClient.open(`${sockets.url}/realtime?model=m`, 'key');
      client.send(sound);
      client.send({ type: 'response.create' });
      await client.event('response.done');
      refusal = each;
      const before = asked;
      for (let n = 0; n < 50; n += 1) client.send({ ...sound, event_id: `no_${n}` });
      client.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content: [] } });
      await upstream.got(3);
      expect(upstream.events.map(({ type }) => type)).to.deep.equal([
        'input_audio_buffer.append',
        'response.create',
        'conversation.item.create',
      ]);
      const { error } = await client.event('error');
      expect(error).to.include({ code: each.code, event_id: 'no_0' });
      expect(client.events.filter(({ type }) => type === 'error')).to.have.length(1);
      expect(asked - before).to.equal(1);
      refusal = undefined;
      client.send({ type: 'response.create' });
      await client.event('response.done', 2);
      client.send(sound);
      await upstream.got(5);
      expect(upstream.events.at(-1)).to.deep.equal(sound);
      expect(client.closed).to.equal(undefined);
      await close(client);
    });
  }

  it('although its upstream has begun it by itself, is cancelled and charged, and the second one in a row ends the session', async () => {
    const client = await SocketClient.open(`${sockets.url}/realtime?model=m`, 'key');
    // the first one is admitted with the handshake, the second one by itself
    for (const count of [1, 2]) {
      respond(upstream.socket);
      await client.event('response.done', count);
    }
    const begin = (id: string) => upstream.socket.send(JSON.stringify({ type: 'response.created', response: { id } }));
    const usage = { ...realtimeUsage, total_tokens: 21, output_tokens: 1 };
    const expectCancelled = async (id: string, count: number) => {
      const { status, headers, error } = await client.event('error');
      expect([status, error.code, headers]).to.deep.equal([429, 'rate_limit_exceeded', again]);
      await upstream.got(count);
      expect(upstream.events.at(-1)).to.deep.equal({ type: 'response.cancel', response_id: id });
      client.received.length = 0;
    };
    const expectCharged = async (id: string, count: number) => {
      upstream.socket.send(JSON.stringify({ type: 'response.done', response: { id, status: 'cancelled', usage } }));
      await until(() => records.length === count);
      expect(records.at(-1)).to.include({ inputTokens: 20, outputTokens: 1, estimated: false });
      if (!client.closed) await client.event('response.done');
      client.received.length = 0;
    };
    refusal = refusals[0];
    begin('resp_one');
    await expectCancelled('resp_one', 1);
    await expectCharged('resp_one', 3);
    refusal = undefined;
    client.send({ type: 'response.create' });
    await upstream.got(2);
    respond(upstream.socket);
    await client.event('response.done');
    expect(records).to.have.length(4);
    refusal = refusals[0];
    client.received.length = 0;
    begin('resp_two');
    await expectCancelled('resp_two', 3);
    await expectCharged('resp_two', 5);
    begin('resp_three');
    await expectCancelled('resp_three', 4);
    expect(await client.whenClosed()).to.deep.equal({ code: 1008, reason: 'rate_limit_exceeded' });
    await untilRead();
    expect(records).to.have.length(5);
    await expectCharged('resp_three', 6);
    await until(() => upstream.socket.readyState === 3);
  });
});
