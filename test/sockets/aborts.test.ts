import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { WebSocket } from 'ws';
import type { UsageRecord } from '../../src/index.ts';
import { noStoredObjects } from '../support/no-stored-objects.ts';
import { until } from '../support/until.ts';
import { untilRead } from '../support/until-read.ts';
import { answerResponse, respond, SocketUpstream } from './socket-upstream.ts';
import { connectionOf, refusalOf, SocketClient, startSockets } from './support.ts';

/** Long enough for a busy machine, and short enough to be waited for. Milliseconds. */
const limit = 600;
/** What closing may take beside the calls under way, with room for a busy machine. Milliseconds. */
const closesWithin = 5_000;

/** Takes a handshake, and says nothing until the other side has gone. */
const neverAnswer = (connection: Duplex): void => void connection.on('end', () => connection.end()).resume();

/** The head of a message of 100 bytes, and ten of them: whoever reads it waits for the rest. */
const halfMessage = Buffer.concat([Buffer.from([0x82, 100]), Buffer.alloc(10, 1)]);
/** The same as clients must write it, masked. */
const halfMasked = Buffer.concat([Buffer.from([0x82, 0x80 + 100, 0, 0, 0, 0]), Buffer.alloc(10, 1)]);

const endpoints = [
  { path: '/realtime?model=m', create: { type: 'response.create' } },
  { path: '/responses', create: { type: 'response.create', model: 'm', input: 'Hi', store: false } },
] as const;

type Actor =
  | 'the client leaves'
  | 'the client hangs'
  | 'the upstream drops it'
  | 'the upstream hangs'
  | 'the upstream is silent'
  | 'the gateway closes';

/** What each side sees of the end, and what is recorded. */
interface Outcome {
  /** The close frame that the client gets. @default the client is gone, or reads nothing */
  readonly client?: { readonly code: number; readonly reason: string };
  /** How a response that was under way is recorded. @default there is none */
  readonly ending?: UsageRecord['ending'];
}

const lost = { code: 1011, reason: 'upstream_disconnected' };
const timedOut = { code: 1011, reason: 'upstream_timeout' };
const closing = { code: 1001, reason: 'shutting_down' };

interface Phase {
  readonly name: string;
  /** Brings an open socket into the phase. */
  enter(client: SocketClient, upstream: SocketUpstream, create: object): Promise<unknown> | undefined;
  readonly outcomes: { readonly [By in Actor]?: Outcome };
}

const idle = {
  'the client leaves': {},
  'the client hangs': {},
  'the upstream drops it': { client: lost },
  'the upstream hangs': { client: lost },
  'the gateway closes': { client: closing },
} as const;

const phases: readonly Phase[] = [
  { name: 'while nothing happens', enter: () => undefined, outcomes: idle },
  {
    name: 'in the middle of a message of the client',
    enter({ socket }) {
      connectionOf(socket).write(halfMasked);
      return undefined;
    },
    // its next frame, also the answer to a ping, would be a part of the message
    outcomes: {
      'the client leaves': {},
      'the client hangs': {},
      'the upstream drops it': { client: lost },
      'the gateway closes': { client: closing },
    },
  },
  {
    name: 'in the middle of a message of the upstream',
    enter(_client, { socket }) {
      connectionOf(socket).write(halfMessage);
      return undefined;
    },
    outcomes: idle,
  },
  {
    name: 'when a response has been asked for',
    async enter(client, upstream, create) {
      client.send(create);
      await upstream.got(1);
    },
    outcomes: {
      'the upstream drops it': { client: lost },
      'the upstream hangs': { client: lost },
      'the upstream is silent': { client: timedOut },
      'the gateway closes': { client: closing },
    },
  },
  {
    name: 'in the middle of a response',
    async enter(client, upstream, create) {
      client.send(create);
      await upstream.got(1);
      upstream.socket.send('{"type":"response.created","response":{"id":"resp_a"}}');
      upstream.socket.send('{"type":"response.output_text.delta","response_id":"resp_a","delta":"Tagus, Douro"}');
      await client.event('response.output_text.delta');
    },
    outcomes: {
      'the client leaves': { ending: 'complete' },
      'the client hangs': { ending: 'complete' },
      'the upstream drops it': { client: lost, ending: 'upstream_failed' },
      'the upstream hangs': { client: lost, ending: 'upstream_failed' },
      'the upstream is silent': { client: timedOut, ending: 'upstream_failed' },
      'the gateway closes': { client: closing, ending: 'upstream_failed' },
    },
  },
  {
    name: 'when the client has closed it, and the upstream does not answer that',
    async enter({ socket }, upstream) {
      upstream.socket.pause();
      socket.close(1000, 'bye');
      await untilRead();
    },
    outcomes: {
      'the client leaves': { client: { code: 1000, reason: 'bye' } },
      'the upstream drops it': { client: { code: 1000, reason: 'bye' } },
      'the upstream hangs': { client: { code: 1000, reason: 'bye' } },
      'the gateway closes': { client: { code: 1000, reason: 'bye' } },
    },
  },
  {
    name: 'when the upstream has closed it, and the client does not answer that',
    async enter({ socket }, upstream) {
      socket.pause();
      upstream.socket.close(1000, 'bye');
      await untilRead();
    },
    outcomes: { 'the client leaves': {}, 'the client hangs': {}, 'the gateway closes': {} },
  },
];

/** A gateway with one place for everything, which tells what it has admitted and recorded. */
async function startScene() {
  const upstream = await SocketUpstream.start();
  const admissions: string[] = [];
  const records: UsageRecord[] = [];
  const ended: unknown[] = [];
  let open = 0;
  const sockets = await startSockets(
    upstream,
    {
      upstreams: [
        {
          name: 'up',
          baseUrl: upstream.baseUrl,
          maxConcurrency: 1,
          timeouts: { connect: limit, firstByte: limit },
        },
      ],
      retry: { attempts: 1 },
      admissionChecks: [
        () => {
          const at = admissions.push('open') - 1;
          const end = (how: string) => {
            admissions[at] = admissions[at] === 'open' ? how : 'twice';
          };
          return { closed: () => end('closed'), dropped: () => end('dropped') };
        },
      ],
      usageRecorder: {
        opened() {
          open += 1;
        },
        closed(record) {
          open -= 1;
          records.push(record);
        },
        dropped() {
          open -= 1;
        },
      },
    },
    { maxSockets: 1, pingInterval: 100, observers: [{ ended: (how) => void ended.push(how) }] },
  );
  return { ...sockets, upstream, admissions, records, ended, openRecords: () => open };
}

type Scene = Awaited<ReturnType<typeof startScene>>;

async function act(actor: Actor, client: SocketClient, scene: Scene): Promise<void> {
  const { upstream } = scene;
  if (actor === 'the client leaves') client.socket.terminate();
  if (actor === 'the client hangs') client.socket.pause();
  if (actor === 'the upstream drops it') upstream.socket.terminate();
  if (actor === 'the upstream hangs') upstream.socket.pause();
  if (actor !== 'the gateway closes') return;
  const startedAt = performance.now();
  await scene.drain();
  expect(performance.now() - startedAt).to.be.below(closesWithin);
}

/** Requires that nothing is left of the sockets that were open. */
async function expectNothingLeft({ proxy, upstream, admissions, openRecords, ended }: Scene): Promise<void> {
  await until(() => ended.length > 0, undefined, 'it has ended');
  // one that hangs sees the end when it goes on
  for (const socket of upstream.sockets) socket.resume();
  await until(() => upstream.sockets.every(({ readyState }) => readyState === WebSocket.CLOSED), undefined, 'told');
  await until(() => !admissions.includes('open'), undefined, 'admissions end');
  expect(admissions).to.not.include('twice');
  expect([proxy.states()[0]?.calls, openRecords()]).to.deep.equal([0, 0]);
}

describe('a WebSocket that ends', () => {
  let scene: Scene;
  beforeEach(async () => {
    scene = await startScene();
  });
  afterEach(async () => {
    await scene.drain();
    scene.close();
    await scene.upstream.close();
  });

  for (const { path, create } of endpoints) {
    for (const { name, enter, outcomes } of phases) {
      for (const [by, outcome] of Object.entries(outcomes)) {
        const actor = by as Actor;
        it(`${path} ${name}, because ${actor}: the other side is told, and nothing is left`, async () => {
          const { upstream, url, records } = scene;
          const client = await SocketClient.open(`${url}${path}`, 'key');
          await until(() => upstream.sockets.length === 1);
          await enter(client, upstream, create);
          await untilRead();
          await act(actor, client, scene);
          if (outcome.ending === 'complete') {
            await untilRead();
            // what is under way is charged by the upstream's own usage
            const usage = { input_tokens: 5, output_tokens: 6, total_tokens: 11 };
            const response = { id: 'resp_a', status: 'completed', usage };
            const type = path.startsWith('/responses') ? 'response.completed' : 'response.done';
            upstream.socket.send(JSON.stringify({ type, response }));
          }
          if (outcome.client) expect(await client.whenClosed()).to.deep.equal(outcome.client);
          await expectNothingLeft(scene);
          expect(records.map(({ ending }) => ending)).to.deep.equal(outcome.ending ? [outcome.ending] : []);
          client.socket.terminate();
          if (actor === 'the gateway closes') return;
          // its place is free again, at the gateway and at the upstream
          upstream.onEvent = ({ model }, socket) =>
            void (model === undefined ? respond(socket) : answerResponse(socket, model));
          let next: SocketClient | undefined;
          await until(async () => {
            next = await SocketClient.open(`${url}${path}`, 'key').catch(() => undefined);
            return next;
          });
          next?.send(create);
          await next?.event(path.startsWith('/responses') ? 'response.completed' : 'response.done');
          next?.socket.close();
          await next?.whenClosed();
        });
      }
    }
  }

  describe('in the handshake', () => {
    beforeEach(() => {
      scene.upstream.refuse = neverAnswer;
    });
    const headers = { authorization: 'Bearer key' };
    const begun = () => until(() => scene.upstream.handshakes.length === 1);
    const expectPlaceIsFree = async () => {
      scene.upstream.refuse = undefined;
      let client: SocketClient | undefined;
      await until(async () => {
        client = await SocketClient.open(`${scene.url}/realtime?model=m`, 'key').catch(() => undefined);
        return client;
      });
      client?.socket.close();
      await client?.whenClosed();
    };

    for (const { path } of endpoints) {
      it(`${path} because the client leaves: the upstream's connection is closed`, async () => {
        let connection: Duplex | undefined;
        scene.upstream.refuse = (socket) => {
          connection = socket;
          neverAnswer(socket);
        };
        const socket = new WebSocket(`${scene.url}${path}`, { headers });
        socket.on('error', () => {});
        await begun();
        const leftAt = performance.now();
        socket.terminate();
        await until(() => connection?.destroyed || connection?.readableEnded);
        expect(performance.now() - leftAt).to.be.below(limit / 2);
        await expectNothingLeft(scene);
        await expectPlaceIsFree();
      });

      it(`${path} because the upstream drops it: the client is answered`, async () => {
        scene.upstream.refuse = (socket) => void socket.destroy();
        const { status, body } = await refusalOf(`${scene.url}${path}`, headers);
        expect([status, body.error.code]).to.deep.equal([502, 'upstream_disconnected']);
        await expectNothingLeft(scene);
        await expectPlaceIsFree();
      });

      it(`${path} because the upstream hangs: the client is answered in time`, async () => {
        const { status, body } = await refusalOf(`${scene.url}${path}`, headers);
        expect([status, body.error.code]).to.deep.equal([504, 'upstream_timeout']);
        await expectNothingLeft(scene);
        await expectPlaceIsFree();
      });
    }
  });

  it('while the gateway closes, in its handshake: the client is answered at once, and not kept waiting for the upstream', async () => {
    const slow = await startSockets(
      scene.upstream,
      { upstreams: [{ name: 'up', baseUrl: scene.upstream.baseUrl, timeouts: { connect: 20_000 } }] },
      {},
    );
    scene.upstream.refuse = neverAnswer;
    const refused = refusalOf(`${slow.url}/realtime?model=m`, { authorization: 'Bearer key' });
    await until(() => scene.upstream.handshakes.length === 1);
    const startedAt = performance.now();
    await slow.drain();
    expect(performance.now() - startedAt).to.be.below(1_000);
    const { status, body } = await refused;
    expect([status, body.error.code]).to.deep.equal([503, 'shutting_down']);
    slow.close();
  });

  it('normally has passed on all that its client has sent before, although it is still being checked', async () => {
    const { upstream } = scene;
    let clientClosed: Promise<unknown> | undefined;
    const slow = await startSockets(
      upstream,
      {
        storedObjects: {
          ...noStoredObjects,
          async find({ id, kind, userId }) {
            // meanwhile the gateway reads the close frame, which comes in one chunk with the messages
            await Promise.race([clientClosed, sleep(1_000)]);
            return { id, kind, userId, upstream: 'up', model: null };
          },
        },
      },
      {},
    );
    const client = await SocketClient.open(`${slow.url}/realtime?model=m`, 'key');
    clientClosed = once(client.socket, 'close');
    const content = [{ type: 'input_file', file_id: 'file-1' }];
    const connection = connectionOf(client.socket);
    connection.cork();
    client.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } });
    for (let n = 1; n <= 20; n += 1)
      client.send({ type: 'input_audio_buffer.append', audio: 'QUJD', event_id: `e${n}` });
    const closed = once(upstream.socket, 'close');
    client.socket.close(1000, 'bye');
    connection.uncork();
    const [code, reason] = await closed;
    expect([code, String(reason)]).to.deep.equal([1000, 'bye']);
    expect(upstream.events.map(({ event_id }) => event_id)).to.deep.equal([
      undefined,
      ...Array.from({ length: 20 }, (_, i) => `e${i + 1}`),
    ]);
    await slow.drain();
    slow.close();
  });
});
