import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { expect } from 'chai';
import OpenAI from 'openai';
import type { UsageRecord } from '../../../src/index.ts';
import { whileClockStands } from '../../support/clock.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { callerKey, type ModelServer, startModelServer, strangerKey } from '../../support/model-server.ts';
import { until } from '../../support/until.ts';
import { json, type Script, ScriptedUpstream } from '../../support/upstream.ts';

const comment = ': heartbeat\n\n';
const done = 'data: [DONE]\n\n';
const streamHeartbeat = 100;

const say = (content: string): string => `data: {"choices":[{"index":0,"delta":{"content":"${content}"}}]}\n\n`;
const beatsIn = (text: string): number => text.split(comment).length - 1;
const question = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }], stream: true as const };

/** An answer as it comes over a socket. */
class RawAnswer {
  readonly socket: Socket;
  #bytes = '';

  constructor(url: string, path: string, request: object, key: string) {
    const { hostname, port, pathname } = new URL(url);
    const body = JSON.stringify(request);
    this.socket = connect(Number(port), hostname);
    this.socket.setEncoding('latin1').on('error', () => {});
    this.socket.on('data', (text) => {
      this.#bytes += text;
    });
    const head = [
      `POST ${pathname}${path} HTTP/1.1`,
      `host: ${hostname}`,
      `authorization: Bearer ${key}`,
      'accept-encoding: x-own',
      'content-type: application/json',
      `content-length: ${body.length}`,
    ];
    this.socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  }

  get status(): number {
    return Number(this.#bytes.split(' ', 2)[1]);
  }

  /** Each write of the gateway is a chunk (RFC 9112, section 7.1). */
  get chunks(): string[] {
    const coded = this.#bytes.slice(`${this.#bytes}\r\n\r\n`.indexOf('\r\n\r\n') + 4);
    const chunks: string[] = [];
    for (let at = 0; ; ) {
      const [line, size = '0'] = /^([0-9a-f]+)\r\n/.exec(coded.slice(at, at + 16)) ?? [''];
      const end = at + line.length + Number.parseInt(size, 16);
      if (line === '' || size === '0' || end > coded.length) return chunks;
      chunks.push(coded.slice(at + line.length, end));
      at = end + 2;
    }
  }

  get text(): string {
    return this.chunks.join('');
  }

  get hasEnded(): boolean {
    return this.#bytes.endsWith('\r\n0\r\n\r\n');
  }
}

describe('the heartbeat of a stream', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let plainServer: ModelServer;
  let records: UsageRecord[];
  let answers: RawAnswer[];
  /** The upstream's answer to the last request, when its head is sent. */
  let upstreamAnswer: ServerResponse | undefined;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    const common = {
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      hooks: { onUsage: (record: UsageRecord) => void (record.userId === 'usr_1' && records.push(record)) },
      abortOnDisconnect: false,
    };
    server = await startModelServer({ ...common, streamHeartbeat });
    plainServer = await startModelServer(common);
  });

  after(async () => {
    await server.close();
    await plainServer.close();
    await upstream.close();
  });

  beforeEach(() => {
    records = [];
    answers = [];
  });

  afterEach(async () => {
    for (const { socket } of answers) socket.destroy();
    // an upstream that says no more has its calls end
    upstreamAnswer?.destroy();
  });

  /** Sends the head of a stream and its beginning, and leaves the rest to the test. */
  const begin =
    (first: string, headers: Record<string, string> = {}): Script =>
    (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
      res.write(first);
      upstreamAnswer = res;
    };

  function ask(script: Script, path = '/chat/completions', to = server, request: object = question, key = callerKey) {
    upstreamAnswer = undefined;
    upstream.script = script;
    const answer = new RawAnswer(to.baseUrl, path, request, key);
    answers.push(answer);
    return answer;
  }

  const beginning = async (): Promise<ServerResponse> => {
    await until(() => upstreamAnswer);
    return upstreamAnswer as ServerResponse;
  };

  /**
   * Resolves when streams that are silent from now on have got some comments: another stream is the clock.
   * @param pass lets so much time pass. @default it passes by itself
   */
  async function untilBeats(count: number, pass = (_milliseconds: number) => {}): Promise<void> {
    const answered = upstreamAnswer;
    const clock = ask(begin(say('tick')), '/chat/completions', server, question, strangerKey);
    await until(() => clock.text.includes('tick'));
    for (let n = 1; n <= count; n += 1) {
      pass(streamHeartbeat);
      await until(() => beatsIn(clock.text) >= n);
    }
    clock.socket.destroy();
    upstreamAnswer?.end(done);
    upstreamAnswer = answered;
  }

  for (const [name, events, read] of [
    [
      'chat',
      [say('a'), say('b'), done],
      async (client: OpenAI) => {
        let text = '';
        const stream = await client.chat.completions.create(question);
        for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
        return text;
      },
    ],
    [
      'response',
      [
        'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}\n\n',
        'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":1,"delta":"ab"}\n\n',
        'event: response.completed\ndata: {"type":"response.completed","sequence_number":2,"response":{"id":"resp_1","object":"response","status":"completed","output":[]}}\n\n',
      ],
      async (client: OpenAI) => {
        let text = '';
        const stream = await client.responses.create({ model: 'm', input: 'Hi', store: false, stream: true });
        for await (const event of stream) if (event.type === 'response.output_text.delta') text += event.delta;
        return text;
      },
    ],
  ] as const) {
    it(`comes while the upstream of a ${name} is silent, and OpenAI's client passes over it`, async () => {
      let received = '';
      const client = server.client({
        async fetch(url, init) {
          const response = await fetch(url, init);
          const listener = new TransformStream<Uint8Array, Uint8Array>({
            transform(chunk, controller) {
              received += Buffer.from(chunk).toString();
              controller.enqueue(chunk);
            },
          });
          return new Response(response.body?.pipeThrough(listener) ?? null, response);
        },
      });
      const [first, ...others] = events;
      upstream.script = begin(first);
      upstreamAnswer = undefined;
      const text = read(client);
      const sender = await beginning();
      await until(() => beatsIn(received) >= 2);
      for (const event of others) {
        const before = beatsIn(received);
        sender.write(event);
        await until(() => beatsIn(received) > before || event === others.at(-1));
      }
      sender.end();
      expect(await text).to.equal('ab');
      expect(received.replaceAll(comment, '')).to.equal(events.join(''));
    });
  }

  it('is a write of its own between events, also where half an event has come', async () => {
    const answer = ask(begin(say('a') + say('b').slice(0, 30)));
    const sender = await beginning();
    await until(() => beatsIn(answer.text) >= 2);
    expect(answer.chunks.slice(0, 3)).to.deep.equal([say('a'), comment, comment]);
    sender.end(say('b').slice(30) + done);
    await until(() => answer.hasEnded);
    const rest = answer.chunks.filter((chunk) => chunk !== comment);
    expect(rest.join('')).to.equal(say('a') + say('b') + done);
    expect(rest.slice(1).join('')).to.equal(say('b') + done);
  });

  it('is never inside an event that is too large to be held', async () => {
    const large = say('x'.repeat(100_000));
    const answer = ask(begin(say('a') + large.slice(0, 50_000)));
    const sender = await beginning();
    await until(() => answer.text.length > 50_000);
    await untilBeats(4);
    const sent = answer.text;
    sender.write(large.slice(50_000));
    await until(() => beatsIn(answer.text.slice(sent.length)) >= 1);
    sender.end(done);
    await until(() => answer.hasEnded);
    expect(answer.text.slice(sent.length).startsWith(large.slice(50_000) + comment)).to.equal(true);
    expect(answer.text.replaceAll(comment, '')).to.equal(say('a') + large + done);
    expect(sent.slice(sent.indexOf('x'))).not.to.include(comment);
  });

  it('waits for the head of the answer: until then an error has its status', async () => {
    let answerNow: () => void = () => {};
    const answer = ask((res, request) => {
      answerNow = () => void json(400, { error: { message: 'no' } })(res, request);
      upstreamAnswer = res;
    });
    await beginning();
    await untilBeats(4);
    expect(answer.socket.bytesRead).to.equal(0);
    answerNow();
    await until(() => answer.socket.bytesRead > 0);
    expect(answer.status).to.equal(400);
  });

  it('comes before the first event where the upstream says nothing behind its head; a byte order mark then goes', async () => {
    const answer = ask((res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      upstreamAnswer = res;
    });
    const sender = await beginning();
    await until(() => beatsIn(answer.text) >= 1);
    expect(answer.status).to.equal(200);
    sender.end(`\ufeff${say('a')}${done}`);
    await until(() => answer.hasEnded);
    expect(answer.text.replaceAll(comment, '')).to.equal(say('a') + done);
  });

  it('is in no answer that is no stream of events, and in none that is compressed in a way that the gateway does not read', async () => {
    const jsonHeaders = { 'content-type': 'application/json' };
    const long = `{"choices":[{}],"x":"${'x'.repeat(400_000)}"}`;
    const inPlain = { ...question, stream: false };
    for (const [headers, path, request, text] of [
      [jsonHeaders, '/chat/completions', inPlain, long],
      [{ 'content-type': 'audio/wav' }, '/audio/speech', { model: 'm', input: 'Hi', voice: 'v' }, long],
      [{ 'content-encoding': 'x-own' }, '/chat/completions', question, say('a') + done],
    ] as const) {
      const answer = ask(begin(text.slice(0, -5), headers), path, server, request);
      const sender = await beginning();
      await until(() => answer.text.length >= text.length - 5);
      await untilBeats(4);
      sender.end(text.slice(-5));
      await until(() => answer.hasEnded);
      expect(answer.text === text, path).to.equal(true);
    }
  });

  it('is not sent to a client that has something to read', async () => {
    const events = say('x'.repeat(1_000)).repeat(16_000);
    const answer = ask(begin(''));
    answer.socket.pause();
    const sender = await beginning();
    // no silence but that which is meant
    await whileClockStands(async (pass) => {
      sender.end(events + done);
      await untilBeats(10, pass);
      answer.socket.resume();
      await until(() => answer.hasEnded);
    }, performance);
    expect(answer.text.replaceAll(comment, '') === events + done).to.equal(true);
    expect(beatsIn(answer.text)).to.be.below(5);
  });

  it('changes nothing of what a call has used, nor of the call of a client that leaves', async () => {
    const measured = ({ inputTokens, outputTokens, estimated, ending }: UsageRecord) => {
      return { inputTokens, outputTokens, estimated, ending };
    };
    const used: object[] = [];
    for (const to of [server, plainServer]) {
      const answer = ask(begin(say('one two three')), '/chat/completions', to);
      const sender = await beginning();
      await until(() => answer.text.includes('three'));
      await untilBeats(3);
      sender.end(say(' four') + done);
      await until(() => answer.hasEnded && records.length > 0);
      expect(beatsIn(answer.text) > 0).to.equal(to === server);
      used.push(...records.splice(0).map(measured));
    }
    expect(used[0]).to.include({ ending: 'complete', estimated: true });
    expect(used[0]).to.deep.equal(used[1]);

    const leaving = ask(begin(say('a')));
    const sender = await beginning();
    await until(() => beatsIn(leaving.text) >= 1);
    leaving.socket.destroy();
    await untilBeats(3);
    const usage = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 };
    sender.end(`data: ${JSON.stringify({ choices: [], usage })}\n\n${done}`);
    await until(() => records.length === 1);
    expect(measured(records[0] as UsageRecord)).to.deep.equal({
      ...{ inputTokens: 7, outputTokens: 5, estimated: false, ending: 'client_left' },
    });
  });

  it('postpones no time limit, and ends with a stream that breaks off', async () => {
    const limited = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, timeouts: { betweenChunks: 1_000 } }],
      streamHeartbeat,
    });
    try {
      const slow = ask(begin(say('a')), '/chat/completions', limited);
      await until(() => slow.hasEnded);
      expect(beatsIn(slow.text)).to.be.at.least(1);
      expect(slow.text.split(comment).at(-1)).to.match(/^data: [^\n]*"upstream_timeout"[^\n]*\n\n$/);
    } finally {
      await limited.close();
    }
    const broken = ask(begin(say('a')));
    const sender = await beginning();
    await until(() => beatsIn(broken.text) >= 1);
    sender.socket?.resetAndDestroy();
    await until(() => broken.hasEnded);
    expect(broken.text.replaceAll(comment, '')).to.match(/^data: [^\n]+\n\ndata: \{"error":[^\n]*\n\n$/);
  });

  describe('of a gateway', () => {
    let live: LiveGateway;

    before(async () => {
      live = await startGateway({
        upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
        modelCalls: { streamHeartbeat },
      });
    });
    after(() => live.close());

    it('comes by the option `modelCalls.streamHeartbeat`, in the stream of a stored response too', async () => {
      const client = new OpenAI({ baseURL: `${live.url}/v1`, apiKey: live.key, maxRetries: 0 });
      const response = { id: 'resp_kept', object: 'response', status: 'completed', output: [{}] };
      upstream.script = json(200, response);
      await client.responses.create({ model: 'm', input: 'Hi' });

      const last = `event: response.completed\ndata: {"type":"response.completed","sequence_number":1,"response":{"id":"resp_kept"}}\n\n`;
      const delta = `event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":0,"delta":"a"}\n\n`;
      for (const [method, path, first, end] of [
        ['POST', '/chat/completions', say('a'), done],
        ['GET', '/responses/resp_kept?stream=true', delta, last],
      ] as const) {
        upstreamAnswer = undefined;
        upstream.script = begin(first);
        const answer = await fetch(`${live.url}/v1${path}`, {
          method,
          headers: { authorization: `Bearer ${live.key}`, 'content-type': 'application/json' },
          ...(method === 'POST' && { body: JSON.stringify(question) }),
        });
        const sender = await beginning();
        let text = '';
        let hasEnded = false;
        for await (const chunk of answer.body ?? []) {
          text += Buffer.from(chunk).toString();
          if (beatsIn(text) < 1 || hasEnded) continue;
          hasEnded = true;
          sender.end(end);
        }
        expect(text.replaceAll(comment, '')).to.equal(first + end);
        expect(beatsIn(text), path).to.be.at.least(1);
      }
    });
  });
});
