import { createServer } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import express from 'express';
import type { WebSocket } from 'ws';
import type { ModelGateway, UsageRecord } from '../../src/index.ts';
import { createRandom } from '../faults/random.ts';
import { createGateway, newSecretKey } from '../support/gateway.ts';
import { listenOn } from '../support/listen.ts';
import { freshDatabase } from '../support/mongo.ts';
import { eventually, until } from '../support/until.ts';
import { SocketUpstream } from './socket-upstream.ts';
import { SocketClient } from './support.ts';

const seed = Number(process.env.SEED ?? 47);
const rounds = 8;
const sessionsPerRound = 125;
const accounts = ['usr_0', 'usr_1', 'usr_2'];
/** Credits of a million tokens. */
const prices = { '*': { input: 1, output: 4 }, hear: { input: 2, output: 3 } };
const credits = 1_000;
/** 24,000 samples of 16 bits, which are ten tokens. */
const secondOfSound = Buffer.alloc(48_000).toString('base64');

/** One thing that an upstream has worked on, by its own count. */
interface Work {
  readonly id: string;
  readonly model: 'm' | 'hear';
  /** What the gateway estimates, where the upstream says nothing. Tokens */
  readonly estimatedInput: number;
  readonly inputTokens: number;
  outputTokens: number;
  /** What has been sent of its text, and what a client has got of it. */
  readonly sent: Seen;
  readonly got: Seen;
  /** Whether its upstream has sent its end. */
  isWhole: boolean;
  /** Whether its client was told of it. */
  isKnown: boolean;
  /** Whether nobody could learn of its end: its upstream died, its client left a call over HTTP, or its gateway closed. */
  isCut: boolean;
}

interface Seen {
  events: number;
  text: number;
}

/** Some turns of the event loop. */
async function pause(random: ReturnType<typeof createRandom>): Promise<void> {
  for (let turns = random.below(3); turns > 0; turns -= 1) await nextTurn();
}

/** The tokens that documentation says are estimated of what was seen. */
const estimate = ({ events, text }: Seen): number => Math.max(events, Math.ceil(text / 3));

/** A provider that counts what it uses, and dies in the middle of some answers. */
async function startCountingUpstream(random: ReturnType<typeof createRandom>) {
  const upstream = await SocketUpstream.start();
  const works = new Map<string, Work>();
  /** Of each request, as the gateway names it. */
  const ofRequest = new Map<string, Work[]>();
  const requestOf = new WeakMap<WebSocket, string>();
  /** The tokens that a realtime session has in its conversation. */
  const conversations = new WeakMap<WebSocket, number>();
  const state = { isClosing: false };

  function begin(requestId: string, model: Work['model'], estimatedInput: number): Work {
    const work: Work = {
      ...{ id: `resp_${works.size}`, model, estimatedInput },
      // no tokenizer counts as the estimate does
      inputTokens: Math.ceil((estimatedInput * (75 + random.below(26))) / 100),
      outputTokens: 0,
      ...{ sent: { events: 0, text: 0 }, got: { events: 0, text: 0 } },
      ...{ isWhole: false, isKnown: false, isCut: false },
    };
    works.set(work.id, work);
    ofRequest.set(requestId, [...(ofRequest.get(requestId) ?? []), work]);
    return work;
  }

  const usageOf = ({ inputTokens: input, outputTokens: output }: Work) => ({
    ...{ input_tokens: input, output_tokens: output, prompt_tokens: input, completion_tokens: output },
    total_tokens: input + output,
  });

  /** Writes an answer, if the other side stays. @returns whether it has come to its end */
  async function write(work: Work, isOpen: () => boolean, send: (text: string) => void, die: () => void) {
    for (let parts = 1 + random.below(10); parts > 0; parts -= 1) {
      await pause(random);
      if (!isOpen()) {
        work.isCut = true;
        return false;
      }
      const text = 'word '.repeat(1 + random.below(20));
      work.outputTokens += Math.ceil(text.length / 4);
      work.sent.events += 1;
      work.sent.text += text.length;
      send(text);
      if (random.below(50) > 0) continue;
      work.isCut = true;
      die();
      return false;
    }
    work.isWhole = true;
    work.isCut = state.isClosing;
    return true;
  }

  upstream.onOpen = (socket) => {
    requestOf.set(socket, String(upstream.handshakes.at(-1)?.headers['x-request-id']));
    const session = { audio: { input: { transcription: { model: 'hear' } } } };
    if (upstream.handshakes.at(-1)?.url?.includes('/realtime'))
      socket.send(JSON.stringify({ type: 'session.created', session }));
  };
  upstream.onEvent = (event, socket) => {
    const length = Buffer.byteLength(JSON.stringify(event));
    const requestId = requestOf.get(socket) as string;
    const isRealtime = event.model === undefined;
    const conversation = conversations.get(socket) ?? 0;
    const isOpen = () => socket.readyState === socket.OPEN;
    const die = () => socket.terminate();
    const say = (said: object) => socket.send(JSON.stringify(said));
    const add = (tokens: number) => conversations.set(socket, (conversations.get(socket) ?? 0) + tokens);
    if (event.type === 'conversation.item.create') add(Math.ceil(length / 4));
    if (event.type === 'response.create') {
      const work = begin(requestId, 'm', isRealtime ? conversation : Math.ceil(length / 4));
      const { id } = work;
      say({ type: 'response.created', response: { id } });
      const type = 'response.output_text.delta';
      void write(work, isOpen, (delta) => say({ type, response_id: id, delta }), die).then((isWhole) => {
        if (!isWhole) return;
        add(work.inputTokens + work.outputTokens - work.estimatedInput);
        const response = { id, status: 'completed', usage: usageOf(work) };
        say({ type: isRealtime ? 'response.done' : 'response.completed', response });
      });
    }
    if (event.type === 'input_audio_buffer.commit') {
      const work = begin(requestId, 'hear', 10);
      const { id } = work;
      add(10);
      say({ type: 'input_audio_buffer.committed', item_id: id });
      const part = (step: string, rest: object) =>
        say({ type: `conversation.item.input_audio_transcription.${step}`, item_id: id, ...rest });
      void write(work, isOpen, (delta) => part('delta', { delta }), die).then((isWhole) => {
        if (isWhole) part('completed', { transcript: '', usage: { type: 'tokens', ...usageOf(work) } });
      });
    }
  };
  upstream.onRequest = ({ headers, body }, res) => {
    const { stream, stream_options: _, ...asked } = JSON.parse(body);
    const sent = JSON.stringify(stream ? { ...asked, stream } : asked);
    const work = begin(String(headers['x-request-id']), 'm', Math.ceil(sent.length / 4));
    const { id } = work;
    const isOpen = () => !res.destroyed;
    if (!stream) {
      const message = { role: 'assistant', content: 'word '.repeat(10) };
      work.outputTokens = 13;
      const answer = JSON.stringify({
        id,
        choices: [{ index: 0, finish_reason: 'stop', message }],
        usage: usageOf(work),
      });
      work.sent.text = answer.length;
      void pause(random).then(() => {
        Object.assign(work, { isWhole: isOpen(), isCut: !isOpen() || state.isClosing });
        res.writeHead(200, { 'content-type': 'application/json' }).end(answer);
      });
      return;
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const say = (said: object | string) =>
      res.write(`data: ${typeof said === 'string' ? said : JSON.stringify(said)}\n\n`);
    const send = (content: string) => say({ id, choices: [{ index: 0, delta: { content } }] });
    void write(work, isOpen, send, () => res.destroy()).then((isWhole) => {
      if (!isWhole) return;
      work.sent.events += 2;
      say({ id, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: usageOf(work) });
      say('[DONE]');
      res.end();
    });
  };
  return { upstream, works, ofRequest, state };
}

type CountingUpstream = Awaited<ReturnType<typeof startCountingUpstream>>;

describe('what accounts are charged for sessions and calls', function () {
  this.timeout(600_000);

  it(`is what upstreams have counted, in 1,000 sessions that are cut anywhere (SEED=${seed})`, async () => {
    const random = createRandom(seed);
    const database = await freshDatabase();
    const counting = await startCountingUpstream(createRandom(seed + 1));
    const records: UsageRecord[] = [];
    const options = {
      mongo: database.connection,
      secretKeys: [newSecretKey()],
      upstreams: [{ name: 'up', baseUrl: counting.upstream.baseUrl }],
      modelCalls: { attempts: 1 },
      credits: { prices },
      limits: { apiKeys: rounds * sessionsPerRound },
      drainTimeout: 50,
      onUsage: (record: UsageRecord) => void records.push(record),
    };
    const operator = await createGateway(options);
    await operator.start();
    for (const userId of accounts) await operator.credits?.topUp({ userId, credits, reference: userId });
    const kinds = new Map<string, number>();
    for (let round = 0; round < rounds; round += 1) {
      await runRound(await createGateway(options), counting, createRandom(random.below(2 ** 31)), kinds);
    }
    const outcome = expectCharged(counting, records);
    const spent = (userId: string) =>
      records.filter((record) => record.userId === userId).reduce((sum, record) => sum + costOf(record), 0);
    for (const userId of accounts) {
      const expected = credits - spent(userId) / 1_000_000;
      const left = async () => (await operator.credits?.balance(userId))?.creditsRemaining ?? Number.NaN;
      expect(await eventually(left, (now) => Math.abs(now - expected) < 1e-9)).to.be.closeTo(expected, 1e-9);
    }
    // enough of each for this to say something
    expect(outcome.exact, 'exact').to.be.above(1_000);
    expect(outcome.estimated, 'estimated').to.be.above(100);
    for (const kind of ['realtime', 'responses', 'streamed', 'plain']) expect(kinds.get(kind), kind).to.be.above(100);
    await operator.close();
    await counting.upstream.close();
    await database.drop();
  });
});

const costOf = ({ model, inputTokens, outputTokens }: UsageRecord): number => {
  const price = model === 'hear' ? prices.hear : prices['*'];
  return inputTokens * price.input + outputTokens * price.output;
};

/** Holds the records of each session and call against what its upstream has counted. @returns how many were exact, and how many estimated */
function expectCharged({ ofRequest }: CountingUpstream, records: readonly UsageRecord[]) {
  const outcome = { exact: 0, estimated: 0 };
  let paired = 0;
  for (const [requestId, works] of ofRequest) {
    for (const model of ['m', 'hear'] as const) {
      const counted = works.filter((work) => work.model === model);
      const charged = records.filter((record) => record.requestId === requestId && record.model === model);
      const certain = counted.filter(({ isKnown, isCut }) => isKnown || !isCut);
      expect(charged.length, `records of ${requestId}`).to.be.within(certain.length, counted.length);
      let spare = charged.length - certain.length;
      for (const work of counted) {
        if (!certain.includes(work) && spare-- <= 0) continue;
        const record = charged.shift() as UsageRecord;
        paired += 1;
        outcome[record.estimated ? 'estimated' : 'exact'] += 1;
        expectWithin(record, work);
      }
    }
  }
  expect(paired, 'records beside those').to.equal(records.length);
  return outcome;
}

/** An exact record is what the upstream has counted; an estimated one is the estimate of what was sent up and of what can have been seen. */
function expectWithin(record: UsageRecord, work: Work): void {
  const { id, estimatedInput, inputTokens, outputTokens, isCut } = work;
  const said = `${id}: ${JSON.stringify({ record, work })}`;
  if (!record.estimated) {
    expect([record.inputTokens, record.outputTokens], said).to.deep.equal([inputTokens, outputTokens]);
    return;
  }
  const isLeft = record.ending === 'client_left' && record.endpoint === '/chat/completions';
  expect(isCut || isLeft, said).to.equal(true);
  expect(record.inputTokens, said).to.equal(estimatedInput);
  // what may have come in silence, as the documentation says
  const unseen = isLeft ? Math.ceil(record.durationMs / 10) : 0;
  expect(record.outputTokens, said).to.be.within(estimate(work.got), estimate(work.sent) + unseen);
}

/** Sessions of clients of one gateway, which closes while the last of them are still under way. */
async function runRound(
  gateway: ModelGateway,
  counting: CountingUpstream,
  random: ReturnType<typeof createRandom>,
  kinds: Map<string, number>,
): Promise<void> {
  const server = createServer(express().use(gateway.router));
  gateway.attach(server);
  const port = await listenOn(server);
  await gateway.start();
  counting.state.isClosing = false;
  let begun = 0;
  let ended = 0;
  const next = async (): Promise<void> => {
    while (begun < sessionsPerRound && !counting.state.isClosing) {
      begun += 1;
      const kind = random.pick(['realtime', 'responses', 'realtime', 'responses', 'streamed', 'plain'] as const);
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      const account = random.pick(accounts);
      const client = { gateway, counting, random, userId: account, url: `127.0.0.1:${port}/v1` };
      await (kind === 'realtime' || kind === 'responses' ? useSocket(client, kind) : call(client, kind === 'streamed'));
      ended += 1;
    }
  };
  const clients = Array.from({ length: 20 }, next);
  await until(() => ended >= sessionsPerRound - 15, 120_000);
  counting.state.isClosing = true;
  for (const work of counting.works.values()) if (!work.isWhole) work.isCut = true;
  await gateway.close();
  server.close();
  server.closeAllConnections();
  await Promise.all(clients);
}

interface Client {
  readonly gateway: ModelGateway;
  readonly counting: CountingUpstream;
  readonly random: ReturnType<typeof createRandom>;
  readonly userId: string;
  readonly url: string;
}

/** A session over a WebSocket: some steps, one after the other, until it is cut. */
async function useSocket({ gateway, counting, random, userId, url }: Client, kind: 'realtime' | 'responses') {
  const { id, key } = await gateway.keys.create({ userId, scopes: ['models'] });
  const path = kind === 'realtime' ? '/realtime?model=m' : '/responses';
  const client = await SocketClient.open(`ws://${url}${path}`, key).catch(() => undefined);
  if (!client) return;
  let last = 0;
  let cutAfter = random.below(40);
  const cut = random.pick(['not', 'not', 'closed', 'lost', 'revoked']);
  const create = () =>
    client.send(
      kind === 'realtime'
        ? { type: 'response.create' }
        : { type: 'response.create', model: 'm', input: 'prompt '.repeat(random.below(500)), store: false },
    );
  client.socket.on('message', (data: Buffer) => {
    const event = JSON.parse(data.toString());
    const work = counting.works.get(event.response?.id ?? event.response_id ?? event.item_id);
    if (work) work.isKnown = true;
    if (work && typeof event.delta === 'string') see(work, event.delta);
    // of what is refused nothing more comes
    if (/\.(done|completed)$|^error$/.test(event.type)) last += 1;
    cutAfter -= 1;
    if (cutAfter !== 0) return;
    if (cut === 'closed') client.socket.close(1000);
    if (cut === 'lost') client.socket.terminate();
    if (cut === 'revoked') void gateway.keys.revoke(id, userId).then(create, () => {});
  });
  const isOver = () => client.socket.readyState !== client.socket.OPEN;
  for (let steps = 1 + random.below(5); steps > 0 && !isOver(); steps -= 1) {
    const before = last;
    if (kind === 'realtime' && random.below(3) === 0) {
      client.send({ type: 'input_audio_buffer.append', audio: secondOfSound });
      client.send({ type: 'input_audio_buffer.commit' });
    } else {
      if (kind === 'realtime') {
        const content = [{ type: 'input_text', text: 'prompt '.repeat(random.below(500)) }];
        client.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } });
      }
      create();
    }
    await until(() => isOver() || last > before, 60_000, `${kind} ${cut}`);
  }
  client.socket.close(1000);
  await client.whenClosed();
}

const see = ({ got }: Work, text: string): void => {
  got.events += 1;
  got.text += text.length;
};

/** A call over HTTP, which its client may leave. */
async function call({ gateway, counting, random, userId, url }: Client, stream: boolean): Promise<void> {
  const { key } = await gateway.keys.create({ userId, scopes: ['models'] });
  const messages = [{ role: 'user', content: 'prompt '.repeat(random.below(500)) }];
  const aborter = new AbortController();
  let leavesAfter = random.below(3) > 0 ? Number.POSITIVE_INFINITY : random.below(8);
  const leave = () => aborter.abort();
  if (!stream && leavesAfter < 8) void pause(random).then(leave);
  let rest = '';
  try {
    const response = await fetch(`http://${url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages, ...(stream && { stream }) }),
      signal: aborter.signal,
    });
    for await (const chunk of response.body ?? []) {
      const lines = (rest + Buffer.from(chunk).toString()).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines.filter((one) => one.startsWith('data: {'))) {
        const { id, choices } = JSON.parse(line.slice(6));
        const work = counting.works.get(id);
        const text = choices?.[0]?.delta?.content;
        if (work && text) see(work, text);
        if (work) work.isKnown = true;
        leavesAfter -= 1;
        if (leavesAfter === 0) return leave();
      }
    }
  } catch {
    // it was cut
  }
}
