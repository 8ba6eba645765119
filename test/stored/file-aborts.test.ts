import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { HeldClock, leastDatabaseWait } from '../support/clock.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { untilRead } from '../support/until-read.ts';
import { FileProvider } from './file-provider.ts';

const json = { 'content-type': 'application/json' };
/** How long an upstream may be silent, on a clock that the test turns. Milliseconds. */
const limit = 50_000;
/** Longer than the gateway waits for its database. Milliseconds. */
const long = 20_000;
/** How long closing waits for calls, by the same clock. Milliseconds. */
const drainTimeout = 3_000;
/** What closing may take beside, with room for a busy machine. Milliseconds. */
const closesWithin = 15_000;
/** More than the connections between hold. Bytes. */
const large = 40 * 1024 * 1024;
const form = { 'content-type': 'multipart/form-data; boundary=x' };

type Actor = 'the client leaves' | 'the upstream drops it' | 'the upstream hangs' | 'the gateway closes';
const actors: readonly Actor[] = [
  'the client leaves',
  'the upstream drops it',
  'the upstream hangs',
  'the gateway closes',
];

/** One call, under way. */
interface Call {
  readonly sent: ClientRequest;
  /** At the upstream. */
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
}

interface Phase {
  readonly name: string;
  /** What the upstream does first. */
  begin(req: IncomingMessage, res: ServerResponse): void;
  /** What the client does then. */
  send(sent: ClientRequest): void;
  /** Resolves when the call is in the phase. */
  reached(call: Call): Promise<unknown>;
}

/** What a client gets: a status and a code, or that the answer was cut off. */
type Answer = readonly [status: number, code: string | undefined] | 'cut';

const failures: Readonly<Partial<Record<Actor, Answer>>> = {
  'the upstream drops it': [502, 'upstream_disconnected'],
  'the upstream hangs': [504, 'upstream_timeout'],
  'the gateway closes': [503, 'shutting_down'],
};

const uploads: readonly (Phase & { readonly isWhole: boolean })[] = [
  {
    name: 'while it goes up',
    isWhole: false,
    begin() {},
    send(sent) {
      sent.write(Buffer.alloc(large / 2, 'x'));
    },
    reached: ({ req }) => once(req, 'readable'),
  },
  {
    name: 'when all of it has gone up',
    isWhole: true,
    begin: (req) => void req.resume(),
    send: (sent) => void sent.end(Buffer.alloc(large, 'x')),
    reached: async ({ req }) => req.complete || once(req, 'end'),
  },
  {
    name: 'in the middle of the answer',
    isWhole: true,
    begin: (req, res) => void req.resume().on('end', () => res.writeHead(200, json).write('{"id":"file-a",')),
    send: (sent) => void sent.end(Buffer.alloc(large, 'x')),
    reached: ({ res }) => until(() => res.headersSent),
  },
];

const bytes = Buffer.alloc(100_000, 7);
const downloads: readonly (Phase & { readonly hasBegun: boolean })[] = [
  {
    name: 'before its head',
    hasBegun: false,
    begin() {},
    send: (sent) => void sent.end(),
    reached: () => untilRead(),
  },
  {
    name: 'after its head',
    hasBegun: true,
    begin: (_req, res) => res.writeHead(200).flushHeaders(),
    send: (sent) => void sent.end(),
    reached: ({ sent }) => once(sent, 'response'),
  },
  {
    name: 'in the middle, of known length',
    hasBegun: true,
    begin: (_req, res) => void res.writeHead(200, { 'content-length': 2 * bytes.length }).write(bytes),
    send: (sent) => void sent.end(),
    reached: ({ sent }) => once(sent, 'response'),
  },
  {
    name: 'after its last byte, before it has ended',
    hasBegun: true,
    begin: (_req, res) => void res.writeHead(200).write(bytes),
    send: (sent) => void sent.end(),
    reached: ({ sent }) => once(sent, 'response'),
  },
];

/** What has come of a call for its client. */
async function answerTo(sent: ClientRequest, begun: IncomingMessage | undefined): Promise<Answer> {
  try {
    const response = begun ?? ((await once(sent, 'response')) as [IncomingMessage])[0];
    const parts: Buffer[] = [];
    for await (const part of response) parts.push(part);
    if (begun) return [response.statusCode ?? 0, undefined];
    return [response.statusCode ?? 0, JSON.parse(Buffer.concat(parts).toString()).error?.code];
  } catch {
    return 'cut';
  }
}

describe('a file on its way', () => {
  let provider: FileProvider;
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateway: LiveGateway;
  let kept: string;
  let clock: HeldClock;

  async function start(): Promise<LiveGateway> {
    return startGateway({
      mongo: database.connection as Connection,
      upstreams: [
        {
          name: 'one',
          baseUrl: provider.baseUrl,
          maxConcurrency: 2,
          timeouts: { firstByte: limit, betweenChunks: limit },
        },
      ],
      limits: { files: 2, fileBytes: large },
      modelCalls: { attempts: 1 },
      drainTimeout,
      credits: { prices: { '*': { input: 1, output: 1 } } },
    });
  }

  before(async () => {
    provider = await FileProvider.start();
  });
  beforeEach(async () => {
    clock = new HeldClock(leastDatabaseWait);
    database = await freshDatabase();
    gateway = await start();
    await gateway.gateway.credits?.topUp({ userId: 'usr_1', credits: 10, reference: 'first' });
    provider.onUpload = undefined;
    provider.onRequest = undefined;
    kept = await upload();
  });
  afterEach(async () => {
    clock.release();
    await gateway.close();
    await database.drop();
  });
  after(() => provider.close());

  async function upload(): Promise<string> {
    const body = new FormData();
    body.append('purpose', 'user_data');
    body.append('file', new Blob(['Tagus']), 'a.txt');
    const headers = { authorization: `Bearer ${gateway.key}` };
    const answer = await fetch(`${gateway.url}/v1/files`, { method: 'POST', headers, body });
    const { id, error } = (await answer.json()) as { id: string; error?: { code: string } };
    if (error) throw new Error(error.code);
    return id;
  }

  const listed = async (): Promise<string[]> =>
    ((await gateway.call('GET', '/v1/files')).body.data ?? []).map(({ id }: { readonly id: string }) => id);

  /** Makes a call, and brings it into the phase. What is long lasts until an actor lets it pass. */
  async function open(
    phase: Phase,
    method: string,
    path: string,
    headers: object,
  ): Promise<Call & { aborted: boolean }> {
    clock.heldFrom = long;
    const begun = new Promise<{ readonly req: IncomingMessage; readonly res: ServerResponse }>((resolve) => {
      const take = (req: IncomingMessage, res: ServerResponse): void => {
        phase.begin(req, res);
        resolve({ req, res });
      };
      if (method === 'POST') provider.onUpload = take;
      else provider.onRequest = take;
    });
    const sent = request(gateway.url + path, {
      method,
      agent: false,
      headers: { authorization: `Bearer ${gateway.key}`, ...headers },
    });
    sent.on('error', () => {});
    phase.send(sent);
    const call = { sent, ...(await begun), aborted: false };
    call.res.on('close', () => {
      call.aborted = !call.res.writableFinished;
    });
    call.req.on('error', () => {});
    await phase.reached(call);
    await untilRead();
    provider.onUpload = undefined;
    provider.onRequest = undefined;
    return call;
  }

  /** Lets the limit pass until there is an answer: what was on its way begins it anew. That of the whole call stays far. */
  async function hang(answer: Promise<unknown> | undefined): Promise<void> {
    let isAnswered = false;
    void answer?.then(() => {
      isAnswered = true;
    });
    for (let turns = 0; !isAnswered && turns < 10; turns += 1) {
      clock.turn(limit, long);
      await untilRead();
    }
  }

  /** Does what the actor does. @returns what the client gets */
  async function act(actor: Actor, { sent, req }: Call, begun?: IncomingMessage): Promise<Answer | undefined> {
    const answer = actor === 'the client leaves' ? undefined : answerTo(sent, begun);
    if (actor === 'the client leaves') sent.destroy();
    if (actor === 'the upstream drops it') req.socket.destroy();
    if (actor === 'the upstream hangs') await hang(answer);
    if (actor === 'the gateway closes') {
      clock.heldFrom = drainTimeout;
      const startedAt = Date.now();
      const closed = gateway.gateway.close();
      // every timer that is as long ends with it
      clock.turn(drainTimeout);
      await closed;
      expect(Date.now() - startedAt).to.be.below(closesWithin);
    }
    return answer;
  }

  /** Requires that no place is taken, and nothing charged; a gateway that has closed is started again. */
  async function expectNothingLeft(actor: Actor): Promise<void> {
    clock.heldFrom = leastDatabaseWait;
    if (actor === 'the gateway closes') {
      await gateway.close();
      gateway = await start();
    }
    const calls = await gateway.gateway.metrics().getSingleMetricAsString('gateway_upstream_calls');
    expect(calls).to.match(/ 0$/);
    expect(
      await database.connection.collection('gateway_usage').countDocuments({ stored: { $exists: false } }),
    ).to.equal(0);
    expect((await gateway.gateway.credits?.balance('usr_1'))?.creditsRemaining).to.equal(10);
  }

  for (const phase of uploads) {
    for (const actor of actors) {
      const isMade = phase.isWhole && actor === 'the client leaves';
      const outcome = isMade ? 'the file is listed' : 'no file is noted, and its place is free';
      it(`${phase.name}, because ${actor}: the other side is told, and ${outcome}`, async () => {
        const call = await open(phase, 'POST', '/v1/files', { ...form, 'content-length': large });
        const answer = await act(actor, call);
        if (isMade) {
          await untilRead();
          expect(call.aborted, 'aborted').to.equal(false);
          provider.keep(Buffer.from('Tagus'), 'a.txt', 'user_data', 'file-a');
          const rest = '"object":"file"}';
          call.res.end(call.res.headersSent ? rest : `{"id":"file-a",${rest}`);
          await until(async () => (await listed()).includes('file-a'));
          await gateway.call('DELETE', '/v1/files/file-a');
        } else {
          expect(answer).to.deep.equal(failures[actor]);
          // one that hangs sees the end when it goes on
          call.req.resume();
          await until(() => call.aborted, undefined, 'the upstream is told');
        }
        call.sent.destroy();
        await until(async () =>
          /\b0$/.test(await gateway.gateway.metrics().getSingleMetricAsString('gateway_upstream_calls')),
        );
        await expectNothingLeft(actor);
        expect(await listed()).to.deep.equal([kept]);
        // the account may have two: the place of the other one is free
        await upload();
      });
    }
  }

  for (const phase of downloads) {
    for (const actor of actors) {
      it(`down, ${phase.name}, because ${actor}: the other side is told, and nothing is left`, async () => {
        let begun: IncomingMessage | undefined;
        const call = await open(
          {
            ...phase,
            send(sent) {
              sent.on('response', (response: IncomingMessage) => {
                begun = response;
              });
              phase.send(sent);
            },
          },
          'GET',
          `/v1/files/${kept}/content`,
          {},
        );
        expect(begun !== undefined).to.equal(phase.hasBegun);
        const answer = await act(actor, call, begun);
        if (actor !== 'the client leaves') expect(answer).to.deep.equal(phase.hasBegun ? 'cut' : failures[actor]);
        await until(() => call.aborted, undefined, 'the upstream is told');
        await expectNothingLeft(actor);
        const again = await fetch(`${gateway.url}/v1/files/${kept}/content`, {
          headers: { authorization: `Bearer ${gateway.key}` },
        });
        expect(await again.text()).to.equal('Tagus');
      });
    }
  }

  it('up to its end belongs to the account also when its client has left, and the gateway closes before the answer', async () => {
    await gateway.close();
    gateway = await startGateway({
      mongo: database.connection as Connection,
      upstreams: [{ name: 'one', baseUrl: provider.baseUrl }],
    });
    const [, whole] = uploads as unknown as [Phase, Phase];
    const call = await open(whole, 'POST', '/v1/files', { ...form, 'content-length': large });
    call.sent.destroy();
    await untilRead();
    const closed = gateway.gateway.close();
    await untilRead();
    provider.keep(Buffer.from('Tagus'), 'a.txt', 'user_data', 'file-a');
    call.res.writeHead(200, json).end('{"id":"file-a","object":"file"}');
    await closed;
    await gateway.close();
    gateway = await start();
    expect(await listed()).to.deep.equal(['file-a', kept]);
  });
});
