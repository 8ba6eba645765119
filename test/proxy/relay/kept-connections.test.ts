import { connect, createServer, type Socket } from 'node:net';
import { expect } from 'chai';
import type { UsageRecord } from '../../../src/index.ts';
import { ends, KeptConnections } from '../../support/kept-connections.ts';
import { listenOn } from '../../support/listen.ts';
import { measureAgain } from '../../support/measure-again.ts';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { selfSigned } from '../../support/servers/certificates.ts';
import { until } from '../../support/until.ts';
import { events, json, type Script, ScriptedUpstream } from '../../support/upstream.ts';

/** Calls at once. */
const burst = 60;
/** Longer than undici keeps a connection: the gateway's own limit counts. */
const offersToKeep = { 'keep-alive': 'timeout=600' };
const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }];
const whole = json(200, { id: 'chatcmpl-1', object: 'chat.completion', choices }, offersToKeep);
const streamed: Script = (res, request) => {
  res.setHeader('keep-alive', 'timeout=600');
  return events([{ choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }] }])(res, request);
};

describe('Kept connections that an upstream closes', () => {
  let upstream: ScriptedUpstream;
  let connections: KeptConnections;
  let server: ModelServer | undefined;
  /** Failures of the upstream, as metrics count them. */
  let failures: string[];
  let records: UsageRecord[];
  /** Runs when the calls of a burst have all come to the gateway, before any of them is sent. */
  let beforeSending: (() => void) | undefined;
  let arrived: (() => void)[];

  async function open(): Promise<void> {
    upstream = await ScriptedUpstream.start();
    connections = new KeptConnections();
    failures = [];
    records = [];
    arrived = [];
    beforeSending = undefined;
  }

  async function close(): Promise<void> {
    await server?.close();
    await upstream.close();
  }

  beforeEach(open);
  afterEach(close);

  /** Of the gateway's own tries a call has one: what is sent again costs none of them. */
  async function start(baseUrl = upstream.baseUrl): Promise<void> {
    const onRequest = async () => {
      if (!beforeSending) return undefined;
      const all = new Promise<void>((resolve) => arrived.push(resolve));
      if (arrived.length === burst) {
        beforeSending();
        for (const resolve of arrived) resolve();
      }
      await all;
      return undefined;
    };
    server = await startModelServer({
      upstreams: [{ name: 'a', baseUrl }],
      retry: { attempts: 1 },
      hooks: { onRequest },
      observers: [
        {
          upstreamAnswered() {},
          upstreamFailed: (_name, code) => void failures.push(code),
          usageCounted: (record) => void records.push(record),
        },
      ],
    });
  }

  async function chat(content: string, stream = false, signal: AbortSignal | null = null) {
    const response = await fetch(`${server?.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
      signal,
      body: JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content }] }),
    });
    return { status: response.status, text: await response.text() };
  }

  const contentOf = ({ body }: { readonly body: Buffer }) => JSON.parse(body.toString()).messages[0].content as string;
  const names = (prefix: string) => Array.from({ length: burst }, (_, i) => `${prefix} ${i}`);
  const chats = (prefix: string, stream: boolean) => Promise.all(names(prefix).map((name) => chat(name, stream)));

  /** Has the gateway keep as many connections as a burst takes, each of which has served one call. */
  async function keepConnections(answer: Script, stream: boolean): Promise<void> {
    let release = () => {};
    const all = new Promise<void>((resolve) => {
      release = resolve;
    });
    upstream.script = connections.script(async (res, request) => {
      if (connections.served.length === burst) release();
      await all;
      return answer(res, request);
    });
    for (const { status } of await chats('first', stream)) expect(status).to.equal(200);
    expect(upstream.connections).to.equal(burst);
    connections.served.length = 0;
    upstream.script = connections.script(answer);
  }

  /** A burst of which each call is answered, and served once, as if nothing had happened. */
  async function expectAnswers(stream: boolean, answers = chats('second', stream)): Promise<void> {
    for (const { status, text } of await answers) {
      expect([status, text]).to.deep.equal([200, text]);
      expect(text).to.include('Hi');
      if (stream) expect(text.trimEnd().endsWith('data: [DONE]'), text).to.equal(true);
    }
    expect(connections.served.map(contentOf)).to.have.members(names('second'));
    expect(failures).to.deep.equal([]);
    expect(server?.proxy.states()[0]).to.include({ breaker: 'closed', calls: 0, waiting: 0 });
    expect((await chat('third', stream)).status).to.equal(200);
  }

  for (const [how, end] of Object.entries(ends)) {
    for (const stream of [false, true]) {
      const what = stream ? 'streams' : 'calls';
      const answer = stream ? streamed : whole;

      it(`cost none of ${burst} ${what} at once when each ${how} as its next request arrives`, async () => {
        await start();
        await keepConnections(answer, stream);
        connections.endOnReuse(end);
        await expectAnswers(stream);
        expect(connections.lost).to.be.above(burst / 2);
      });

      it(`cost none of ${burst} ${what} at once when each ${how} right before its next request is written`, async () => {
        await start();
        await keepConnections(answer, stream);
        beforeSending = () => {
          beforeSending = undefined;
          connections.endNow(end);
        };
        await expectAnswers(stream);
      });
    }

    it(`cost no call when the upstream restarts with ${burst} of them under way (each ${how})`, async () => {
      const restart = async () => {
        await close();
        await open();
        await start();
        await keepConnections(whole, false);
        let isRunning = false;
        let opened = 0;
        upstream.script = connections.script((res, request) => {
          if (isRunning) return whole(res, request);
          if (connections.served.length < burst) return undefined;
          isRunning = true;
          opened = upstream.connections - burst;
          connections.served.length = 0;
          return connections.endNow(end);
        });
        const answers = await chats('second', false);
        return { opened, answers };
      };
      // the gateway keeps a connection for 4 s, in which a very busy machine may not send the second burst: then some go over new ones
      const { opened, answers } = await measureAgain(restart, ({ opened }) => opened === 0);
      expect(opened, 'connections that were not kept').to.equal(0);
      await expectAnswers(false, Promise.resolve(answers));
      expect(upstream.requests.length).to.be.at.least(2 * burst);
    });
  }

  describe('and new ones', () => {
    it('count as failures when they end in the same way: a call is sent twice, and five of them block the account', async () => {
      await start();
      await keepConnections(whole, false);
      connections.endOnReuse(ends['is reset'], { everywhere: true });
      const before = upstream.requests.length;
      expect((await chat('fails')).status).to.equal(502);
      expect([upstream.requests.length - before, failures]).to.deep.equal([2, ['reset']]);
      for (let i = 0; i < 4; i += 1) await chat('fails');
      const sent = upstream.requests.length;
      expect((await chat('is kept away')).status).to.equal(502);
      expect(upstream.requests.length).to.equal(sent);
    });

    it('open the breaker when they are refused', async () => {
      await start();
      await keepConnections(whole, false);
      const closed = upstream.close();
      for (const { status } of await chats('refused', false)) expect(status).to.equal(502);
      expect(server?.proxy.states()[0]?.breaker).to.equal('open');
      await closed;
    });
  });

  it('are no reason to send a call again once a byte of an answer has come', async () => {
    await start();
    await keepConnections(whole, false);
    upstream.script = (res) => void res.socket?.end('H');
    const before = upstream.requests.length;
    expect((await chat('begun')).status).to.equal(502);
    expect([upstream.requests.length - before, failures]).to.deep.equal([1, ['reset']]);
  });

  it('are as good as new ones for the list of models', async () => {
    await start();
    await keepConnections(whole, false);
    upstream.script = connections.script(json(200, { object: 'list', data: [{ id: 'm1', object: 'model' }] }));
    connections.endOnReuse(ends.ends);
    const { data } = (await server?.client().models.list()) ?? {};
    expect(data?.map(({ id }) => id)).to.deep.equal(['m1']);
    expect(connections.lost).to.equal(1);
  });

  describe('over TLS', () => {
    const { NODE_TLS_REJECT_UNAUTHORIZED: checks } = process.env;

    beforeEach(async () => {
      await upstream.close();
      upstream = await ScriptedUpstream.start(selfSigned({ name: 'localhost' }));
      // upstreams have no option for a certificate authority
      process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    });

    afterEach(() => {
      if (checks === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
      else process.env.NODE_TLS_REJECT_UNAUTHORIZED = checks;
    });

    it(`cost none of ${burst} calls at once when each ends as its next request arrives`, async () => {
      await start();
      await keepConnections(whole, false);
      connections.endOnReuse(ends.ends);
      await expectAnswers(false);
      expect(connections.lost).to.be.above(burst / 2);
    });

    it('charge nothing to a client who leaves before its call can be sent again', async () => {
      const held: Socket[] = [];
      let holds = false;
      const front = createServer((near) => {
        near.on('error', () => {});
        // connected, and without a handshake
        if (holds) held.push(near);
        else near.pipe(connect(Number(new URL(upstream.baseUrl).port), '127.0.0.1').on('error', () => {})).pipe(near);
      });
      await start(`https://127.0.0.1:${await listenOn(front)}/v1`);
      try {
        upstream.script = connections.script(whole);
        expect((await chat('first')).status).to.equal(200);
        connections.endOnReuse(ends.ends);
        holds = true;
        const leaving = new AbortController();
        const left = chat('leaves', false, leaving.signal).catch(() => {});
        await until(() => held.length > 0);
        leaving.abort();
        await left;
        await until(() => server?.proxy.states()[0]?.calls === 0);
        expect(connections.lost).to.equal(1);
        expect(records.map(({ ending }) => ending)).to.deep.equal(['complete']);
      } finally {
        for (const socket of held) socket.destroy();
        front.close();
      }
    });
  });
});
