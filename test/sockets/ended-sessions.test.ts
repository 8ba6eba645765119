import { expect } from 'chai';
import { GatewayError, type UsageRecord } from '../../src/index.ts';
import { noStoredObjects } from '../support/no-stored-objects.ts';
import { until } from '../support/until.ts';
import { untilRead } from '../support/until-read.ts';
import { SocketUpstream } from './socket-upstream.ts';
import { SocketClient, startSockets } from './support.ts';

/** 100 KB, which are some 25,000 tokens. */
const prompt = 'word '.repeat(20_000);
const promptTokens = prompt.length / 4;
/** As long as an upstream may be silent. Milliseconds. */
const limit = 1_500;

const said = (text: string) => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] });
const responseCreate = { type: 'response.create' };

/** The ways in which a client may send a prompt. */
const prompts = [
  {
    name: 'a response',
    path: '/responses',
    events: [{ type: 'response.create', model: 'm', input: prompt, store: false }],
  },
  {
    name: 'the instructions of a realtime session',
    path: '/realtime?model=m',
    events: [{ type: 'session.update', session: { instructions: prompt } }, responseCreate],
  },
  {
    name: 'an item of a realtime session',
    path: '/realtime?model=m',
    events: [{ type: 'conversation.item.create', item: said(prompt) }, responseCreate],
  },
  {
    name: 'a response of a realtime session',
    path: '/realtime?model=m',
    events: [{ type: 'response.create', response: { instructions: prompt } }],
  },
] as const;

const lastOf = (path: string) => (path === '/responses' ? 'response.completed' : 'response.done');

describe('a session that does not end by its client, in the middle of a response', () => {
  let upstream: SocketUpstream;
  let sockets: Awaited<ReturnType<typeof startSockets>>;
  let records: UsageRecord[];
  let isRevoked: boolean;
  beforeEach(async () => {
    records = [];
    isRevoked = false;
    upstream = await SocketUpstream.start();
    sockets = await startSockets(
      upstream,
      {
        upstreams: [{ name: 'up', baseUrl: upstream.baseUrl, timeouts: { firstByte: limit } }],
        usageRecorder: { opened() {}, closed: (record) => void records.push(record), dropped() {} },
      },
      {
        maxSocketMessageBytes: 1_000_000,
        // at which the key is checked, and each side must have answered: long enough for a busy machine
        pingInterval: 1_000,
        authenticate: async () => {
          if (isRevoked) throw new GatewayError('invalid_api_key', 'revoked');
          return { userId: 'usr_1' };
        },
      },
    );
  });
  afterEach(async () => {
    await sockets.drain();
    sockets.close();
    await upstream.close();
  });

  const open = (path: string) => SocketClient.open(`${sockets.url}${path}`, 'key');
  const say = (event: object): void => upstream.socket.send(JSON.stringify(event));
  const begin = (id: string): void => say({ type: 'response.created', response: { id } });
  const end = (type: string, id: string, input: number, output: number): void =>
    say({
      type,
      response: {
        id,
        status: 'completed',
        usage: { input_tokens: input, output_tokens: output, total_tokens: input + output },
      },
    });

  /** A client that gets an answer to a prompt of 100 KB. */
  async function ask({ path, events }: (typeof prompts)[number]): Promise<SocketClient> {
    const client = await open(path);
    for (const event of events) client.send(event);
    await upstream.got(events.length);
    begin('resp_a');
    say({ type: 'response.output_text.delta', response_id: 'resp_a', delta: 'Tagus, Douro' });
    await client.event('response.output_text.delta');
    return client;
  }

  /** How it ends. */
  const ways = {
    'whose key is revoked, and whose upstream then dies': async (client: SocketClient) => {
      isRevoked = true;
      await client.whenClosed();
      upstream.socket.terminate();
    },
    'whose key is revoked, and whose upstream is then silent': async (client: SocketClient) => {
      isRevoked = true;
      await client.whenClosed();
    },
    'whose upstream dies': async () => upstream.socket.terminate(),
    'whose upstream closes it': async () => upstream.socket.close(1000),
    'whose upstream is silent': async () => {},
    'whose gateway closes': () => sockets.drain(),
    'whose client leaves, and whose upstream then dies': async (client: SocketClient) => {
      client.socket.terminate();
      await untilRead();
      upstream.socket.terminate();
    },
  } satisfies Record<string, (client: SocketClient) => Promise<unknown>>;

  for (const [i, each] of prompts.entries()) {
    const { name, path } = each;

    it(`whose key is revoked, is charged by the usage of ${name}, which is waited for`, async () => {
      const client = await ask(each);
      isRevoked = true;
      expect((await client.event('error')).error.code).to.equal('invalid_api_key');
      expect(await client.whenClosed()).to.deep.equal({ code: 1008, reason: 'invalid_api_key' });
      await untilRead();
      expect([upstream.socket.readyState, records]).to.deep.equal([1, []]);
      say({ type: 'response.output_text.delta', response_id: 'resp_a', delta: ', Mondego' });
      end(lastOf(path), 'resp_a', 23_456, 789);
      await until(() => records.length === 1);
      expect(records[0]).to.include({
        ending: 'complete',
        estimated: false,
        inputTokens: 23_456,
        outputTokens: 789,
      });
      // nothing is under way any more
      await until(() => upstream.socket.readyState === 3);
      expect(client.events.filter(({ type }) => type === 'response.output_text.delta')).to.have.length(1);
    });

    for (const [how, cut] of Object.entries(ways)) {
      // how it ends does not depend on how the prompt came
      if (i > 1 && how !== 'whose upstream dies') continue;
      it(`${how}, is charged for the prompt in ${name}, and for what was seen of the answer`, async () => {
        const client = await ask(each);
        await cut(client);
        await until(() => records.length === 1);
        expect(records[0]).to.include({ estimated: true });
        expect(records[0]?.ending).to.equal(how.includes('client leaves') ? 'client_left' : 'upstream_failed');
        expect(records[0]?.inputTokens).to.be.within(promptTokens, promptTokens * 1.05);
        expect(records[0]?.outputTokens).to.be.within(4, 110);
        await client.whenClosed();
      });
    }
  }

  it('is charged for the conversation before, as its upstream has counted it, and for what has come since', async () => {
    const client = await open('/realtime?model=m');
    client.send({ type: 'conversation.item.create', item: said('Hi') });
    client.send(responseCreate);
    await upstream.got(2);
    begin('resp_a');
    end('response.done', 'resp_a', 7_000, 300);
    await client.event('response.done');
    client.send({ type: 'conversation.item.create', item: said('word '.repeat(800)) });
    client.send(responseCreate);
    await upstream.got(4);
    begin('resp_b');
    await client.event('response.created', 2);
    upstream.socket.terminate();
    await until(() => records.length === 2);
    expect(records[1]).to.include({ estimated: true });
    expect(records[1]?.inputTokens).to.be.within(8_300, 8_400);
  });

  it('is charged for the instructions that its upstream says it has, and for no more', async () => {
    const client = await open('/realtime?model=m');
    say({ type: 'session.created', session: { instructions: prompt, tools: [] } });
    await client.event('session.created');
    const estimates = [promptTokens, 1_000];
    for (const [i, expected] of estimates.entries()) {
      begin(`resp_${i}`);
      await client.event('response.created', i + 1);
      // so that it says nothing about its input
      say({ type: 'response.done', response: { id: `resp_${i}`, status: 'cancelled' } });
      await until(() => records.length === i + 1);
      expect(records[i]?.inputTokens).to.be.within(expected, expected * 1.05);
      say({ type: 'session.updated', session: { instructions: 'word '.repeat(800), tools: null } });
      await client.event('session.updated');
    }
  });

  it('is charged for sound by its length, both ways', async () => {
    const client = await open('/realtime?model=m');
    /** Half a second of 24,000 samples of 16 bits. */
    const audio = Buffer.alloc(24_000).toString('base64');
    for (let n = 0; n < 20; n += 1) client.send({ type: 'input_audio_buffer.append', audio });
    await upstream.got(20);
    say({ type: 'input_audio_buffer.committed', item_id: 'item_a' });
    begin('resp_a');
    for (let n = 0; n < 8; n += 1) say({ type: 'response.output_audio.delta', response_id: 'resp_a', delta: audio });
    await client.event('response.output_audio.delta', 8);
    upstream.socket.terminate();
    await until(() => records.length === 1);
    // ten seconds of 10 tokens, four seconds of 20
    expect(records[0]?.inputTokens).to.be.within(100, 102);
    expect(records[0]?.outputTokens).to.be.within(80, 82);
  });

  for (const [when, events] of Object.entries({
    'with its first event': ['response.created', 'response.completed'],
    'with its last event': ['response.completed'],
  })) {
    it(`because nobody could be noted as the owner of a response, ${when}, is charged by its usage`, async () => {
      const away = await startSockets(
        upstream,
        {
          storedObjects: {
            ...noStoredObjects,
            async add() {
              throw new GatewayError('database_unavailable', 'away');
            },
          },
          usageRecorder: { opened() {}, closed: (record) => void records.push(record), dropped() {} },
        },
        {},
      );
      const client = await SocketClient.open(`${away.url}/responses`, 'key');
      client.send({ type: 'response.create', model: 'm', input: 'Hi' });
      await upstream.got(1);
      for (const type of events) end(type, 'resp_a', 23_456, 789);
      expect((await client.event('error')).error.code).to.equal('database_unavailable');
      expect((await client.whenClosed()).code).to.equal(1011);
      await until(() => records.length === 1);
      expect(records[0]).to.include({ ending: 'complete', inputTokens: 23_456, outputTokens: 789 });
      expect(client.received).to.have.length(1);
      await away.drain();
      away.close();
    });
  }
});
