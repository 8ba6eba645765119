import { expect } from 'chai';
import * as raw from '../support/servers/raw-receiver.ts';
import { type Scene, startScene } from './over-http.ts';

const ok = 'HTTP/1.1 200 OK\r\n';
/** Milliseconds. */
const attemptTimeout = 700;

describe('The answer of a receiver', () => {
  let scene: Scene;
  let receiver: Awaited<ReturnType<typeof raw.startRawReceiver>>;
  let requests: number;

  before(async () => {
    scene = await startScene({ attemptTimeout, retryDelays: [20] });
  });
  after(() => scene.close());
  afterEach(() => receiver.stop());

  /** The ended delivery of an event to a webhook whose receiver does this with each connection. */
  async function deliver(play: raw.Play) {
    requests = 0;
    receiver = await raw.startRawReceiver((socket) => {
      socket.once('data', () => {
        requests += 1;
      });
      return play(socket);
    });
    const webhook = await scene.webhook(`http://127.0.0.1:${receiver.port}/hook`);
    const delivery = await scene.published(({ state }) => state !== 'pending');
    await scene.call('DELETE', `/v1/webhooks/${webhook}`);
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
});
