import { expect } from 'chai';
import * as raw from '../support/servers/raw-receiver.ts';
import { type Scene, startScene } from './over-http.ts';
import { type Answer, startReceiver, type TestReceiver } from './receiver.ts';

const ok = 'HTTP/1.1 200 OK\r\n';
/** Milliseconds. */
const attemptTimeout = 700;

describe('The answer of a receiver', () => {
  let scene: Scene;
  let requests: number;

  before(async () => {
    scene = await startScene({ attemptTimeout, retryDelays: [20] });
  });
  after(() => scene.close());

  /** The ended delivery of an event to a webhook whose receiver does this with each connection. */
  async function deliver(play: raw.Play) {
    requests = 0;
    const receiver = await raw.startRawReceiver((socket) => {
      socket.once('data', () => {
        requests += 1;
      });
      return play(socket);
    });
    const webhook = await scene.webhook(`http://127.0.0.1:${receiver.port}/hook`);
    const delivery = await scene.published(({ state }) => state !== 'pending');
    await scene.call('DELETE', `/v1/webhooks/${webhook}`);
    await receiver.stop();
    return delivery;
  }

  const chunked = `${ok}transfer-encoding: chunked\r\n\r\n`;
  const bodies: [what: string, raw.Play, response: string][] = [
    ['never ends', raw.endlessly(`${ok}\r\n`, 'a'.repeat(65_536)), 'a'.repeat(1_024)],
    ['does not go on before the deadline', raw.after(`${ok}content-length: 4000\r\n\r\n`, 'thanks'), 'thanks'],
    ['is reset', raw.resettingAfter(`${ok}content-length: 10\r\n\r\nhalf`), 'half'],
    ['ends in the middle', raw.closingAfter(`${ok}content-length: 10\r\n\r\nhalf`), 'half'],
    ['ends in the middle of its chunks', raw.closingAfter(`${chunked}4\r\nhalf\r\n4\r\nof`), 'halfof'],
    ['is no valid chunk', raw.after(`${chunked}4\r\nhalf\r\nzz\r\n`), 'half'],
  ];
  for (const [what, play, response] of bodies) {
    it(`is a success as soon as its status is 200, if its body ${what}: the event arrives once`, async () => {
      const { state, attempts } = await deliver(play);
      expect(state).to.equal('delivered');
      expect(attempts).to.have.length(1);
      expect(attempts[0]).to.include({ status: 200, code: null, response });
      expect(requests).to.equal(1);
    });
  }

  it('fails by its status, if its body never ends', async () => {
    const { state, attempts } = await deliver(raw.after('HTTP/1.1 503 No\r\ncontent-length: 4000\r\n\r\n', 'later'));
    expect(state).to.equal('failed');
    expect(attempts).to.have.length(2);
    for (const attempt of attempts) expect(attempt).to.include({ status: 503, code: 'http_503', response: 'later' });
  });

  describe('with headers', () => {
    const answering = (status: string, ...headers: string[]) =>
      raw.closingAfter(
        Buffer.from(
          [`HTTP/1.1 ${status}`, ...headers, 'connection: close', 'content-length: 0', '', ''].join('\r\n'),
          'latin1',
        ),
      );

    it('has its Retry-After in the attempt, whatever its status, and is not followed by default', async () => {
      for (const status of ['503 No', '429 Slow', '200 OK', '302 Found']) {
        const { attempts } = await deliver(answering(status, 'retry-after: 3600'));
        for (const attempt of attempts) expect(attempt, status).to.include({ retry_after: '3600', location: null });
        expect(attempts).to.have.length(status === '200 OK' ? 1 : 2);
      }
    });

    it('has the Location of a redirect in the attempt, and of nothing else', async () => {
      const location = 'https://user:password@new.example/hook?token=1';
      const { attempts } = await deliver(answering('308 Moved', `location: ${location}`));
      expect(attempts[0]).to.include({ code: 'redirect', location, retry_after: null });
      const created = await deliver(answering('201 Created', `location: ${location}`));
      expect(created.attempts[0]).to.include({ status: 201, location: null });
    });

    it('is recorded without control characters, and at most 100 characters of Retry-After and 2,048 of Location', async () => {
      const headers = [`retry-after: a\x85\x9b${'9'.repeat(200)}`, `location: /\x9b${'a'.repeat(3_000)}`];
      const { attempts } = await deliver(answering('302 Found', ...headers));
      const [{ retry_after: retryAfter, location }] = attempts;
      expect([retryAfter.length, location.length]).to.deep.equal([100, 2_048]);
      expect(retryAfter + location).to.match(/^a9+\/a+$/);
    });
  });
});

describe('Retry-After with honorRetryAfter', () => {
  const delay = 300;
  let scene: Scene;
  let receiver: TestReceiver;

  before(async () => {
    scene = await startScene({ honorRetryAfter: true, retryDelays: [delay, delay] });
  });
  after(() => scene.close());
  beforeEach(async () => {
    receiver = await startReceiver();
    await scene.webhook(receiver.url);
  });
  afterEach(async () => {
    const { body } = await scene.call('GET', '/v1/webhooks');
    for (const { id } of body.data) await scene.call('DELETE', `/v1/webhooks/${id}`);
    await receiver.stop();
  });

  const asking = (retryAfter: string): Answer => {
    return (res) => void res.writeHead(503, { 'retry-after': retryAfter }).end();
  };
  /** Milliseconds between the requests that came. */
  const gaps = () => receiver.received.slice(1).map(({ at }, i) => at - (receiver.received[i]?.at ?? 0));

  it('postpones the next attempt, and adds none', async () => {
    receiver.answers(asking('1'), 503);
    const { state, attempts } = await scene.published(({ state }) => state !== 'pending');
    expect(state).to.equal('failed');
    expect(attempts).to.have.length(3);
    expect(gaps()[0]).to.be.at.least(1_000);
    expect(receiver.received).to.have.length(3);
  });

  it('makes no attempt earlier than the schedule', async () => {
    receiver.answers(asking('0'), 200);
    await scene.published(({ state }) => state === 'delivered');
    expect(gaps()[0]).to.be.at.least(delay);
  });

  it('postpones it by a day at most', async () => {
    receiver.answers(asking('999999'));
    const { attempts, next_attempt_at: next } = await scene.published(({ attempts }) => attempts.length === 1);
    const wait = Date.parse(next) - Date.parse(attempts[0].started_at) - attempts[0].duration_ms;
    expect(wait).to.be.within(86_400_000 - 1_000, 86_400_000 + 30_000);
  });
});
