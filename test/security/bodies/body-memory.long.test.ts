import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect } from 'chai';
import { until } from '../../support/until.ts';
import { hang, json, ScriptedUpstream } from '../../support/upstream.ts';
import { type MeasuredEdge, startMeasuredEdge } from './bounds.ts';

const mebibyte = 1024 * 1024;
const size = 30 * mebibyte;
const start = '{"model":"m","messages":[{"role":"user","content":"';
const end = '"}]}';
const whole = Buffer.from(start + 'x'.repeat(size - start.length - end.length) + end);

/** A client that sends so much of a body of 30 MiB, and what it was answered. */
class Sender {
  answer = '';
  readonly socket: Socket;

  constructor(port: number, account: string, bytes: Buffer) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.on('error', () => {});
    this.socket.on('data', (chunk) => {
      this.answer += chunk.toString('latin1');
    });
    this.socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${account}\r\n` +
        `content-type: application/json\r\ncontent-length: ${size}\r\n\r\n`,
    );
    this.socket.write(bytes);
  }

  get status(): number {
    return Number(/^HTTP\/1\.1 (\d+)/.exec(this.answer)?.[1] ?? 0);
  }
}

describe('the bytes of all bodies in a process', () => {
  let upstream: ScriptedUpstream;
  let edge: MeasuredEdge;
  let senders: Sender[] = [];

  beforeEach(async () => {
    upstream = await ScriptedUpstream.start();
    edge = await startMeasuredEdge(upstream.baseUrl);
  });
  afterEach(async () => {
    for (const { socket } of senders) socket.destroy();
    senders = [];
    await edge.close();
    await upstream.close();
  });

  function sendTen(bytes: Buffer, account: (i: number) => string): void {
    senders = Array.from({ length: 10 }, (_, i) => new Sender(edge.port, account(i), bytes));
  }

  it('are bounded when one account sends ten bodies of 30 MiB and ends none', async () => {
    upstream.script = json(200, { choices: [{}] });
    sendTen(whole.subarray(0, size - 1), () => 'usr_1');
    await until(() => senders.filter(({ status }) => status === 429).length >= 6);
    const refused = senders.find(({ status }) => status === 429) as Sender;
    expect(refused.answer)
      .to.contain('rate_limit_exceeded')
      .and.match(/retry-after: 1/i);
    expect((await edge.measures()).peakBytes).to.be.below(300 * mebibyte);

    const other = await edge.send('/v1/chat/completions', { body: whole, account: 'usr_2' });
    expect(other.status, other.text).to.equal(200);

    // those who leave give back what they held
    for (const { socket } of senders) socket.destroy();
    await Promise.all(senders.map(({ socket }) => socket.closed || once(socket, 'close')));
    let again = 0;
    while (again !== 200) again = (await edge.send('/v1/chat/completions', { body: whole })).status;
  });

  it('are bounded when ten whole bodies wait for an upstream that hangs, and freed when their clients disconnect', async () => {
    upstream.script = hang;
    sendTen(whole, () => 'usr_1');
    const refused = () => senders.filter(({ status }) => status === 429).length;
    await until(() => refused() + upstream.requests.length === 10);
    expect(refused()).to.be.at.least(6);
    expect((await edge.measures()).peakBytes).to.be.below(500 * mebibyte);

    for (const { socket } of senders) socket.destroy();
    upstream.script = json(200, { choices: [{}] });
    let again = 0;
    while (again !== 200) again = (await edge.send('/v1/chat/completions', { body: whole })).status;
  });

  it('leave room for a small body of a new account when large ones are answered 503 with retry-after', async () => {
    upstream.script = json(200, { choices: [{}] });
    sendTen(whole.subarray(0, size - 1), (i) => `usr_${i}`);
    await until(() => senders.some(({ status }) => status === 503));
    const refused = senders.find(({ status }) => status === 503) as Sender;
    expect(refused.answer)
      .to.contain('"code":"overloaded"')
      .and.match(/retry-after: 1/i);
    const small = await edge.send('/v1/chat/completions', {
      body: '{"model":"m","messages":[{"role":"user"}]}',
      account: 'usr_new',
    });
    expect(small.status, small.text).to.equal(200);
  });

  it('are freed once the upstream has begun to stream its answer', async () => {
    upstream.script = (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.write('data: {}\n\n');
    };
    senders = [];
    for (let i = 0; i < 10; i += 1) {
      const sender = new Sender(edge.port, 'usr_1', whole);
      senders.push(sender);
      await until(() => sender.answer.includes('data: {}'));
    }
    expect(senders.map(({ status }) => status)).to.deep.equal(Array(10).fill(200));
  });

  it('are refused with 413 when they come in too many small pieces', async () => {
    const piece = '1\r\nx\r\n'.repeat(10_000);
    const socket = connect(edge.port, '127.0.0.1');
    let answer = '';
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
    });
    socket.write(
      'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer usr_1\r\n' +
        'content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n',
    );
    await edge.measures();
    for (let i = 0; i < 3; i += 1) socket.write(piece);
    await until(() => answer.includes('small pieces'));
    expect(answer).to.match(/^HTTP\/1\.1 413 /);
    socket.destroy();
  });
});
