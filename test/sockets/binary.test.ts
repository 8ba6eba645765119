import { expect } from 'chai';
import type { WebSocket } from 'ws';
import { eventually } from '../support/until.ts';
import { answerResponse, realtimeUsage, respond, type Sender, SocketUpstream } from './socket-upstream.ts';
import { SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** The ways in which a peer may send events other than as a text in one frame. */
const forms: Readonly<Record<string, (socket: WebSocket, event: Buffer) => void>> = {
  'in binary frames': (socket, event) => socket.send(event, { binary: true }),
  'in binary frames, each in many pieces': (socket, event) => sendInPieces(socket, event, true),
  'as texts, each in many pieces': (socket, event) => sendInPieces(socket, event, false),
};

/** Those in which an upstream may send them, too. */
const upstreamForms: typeof forms = {
  ...forms,
  'in binary frames, after white space': (socket, event) =>
    socket.send(Buffer.concat([Buffer.from('\r\n\t '), event]), { binary: true }),
  'in binary frames, after a byte order mark': (socket, event) =>
    socket.send(Buffer.concat([byteOrderMark, event]), { binary: true }),
  'as texts, after a byte order mark': (socket, event) =>
    socket.send(Buffer.concat([byteOrderMark, event]), { binary: false }),
  'in binary frames with bytes that are no UTF-8': (socket, event) =>
    socket.send(Buffer.concat([event.subarray(0, -1), Buffer.from(',"x":"\xff\xfe"}', 'latin1')]), { binary: true }),
};

function sendInPieces(socket: WebSocket, event: Buffer, binary: boolean): void {
  const step = 7;
  for (let at = 0; at < event.length; at += step) {
    const fin = at + step >= event.length;
    socket.send(event.subarray(at, at + step), { binary, fin });
    if (!fin) socket.ping();
  }
}

const sentBy = (send: (event: Buffer) => void): Sender => ({ send: (text) => send(Buffer.from(text)) });

describe('an event is JSON, whatever its frames are:', () => {
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl, maskErrors: true }],
      credits: {
        prices: { '*': { input: 1_000_000, output: 1_000_000 } },
        expectedOutputTokens: 1,
      },
    });
  });
  beforeEach(() => {
    upstream.reset();
    gateway.usage.length = 0;
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
  });

  let accounts = 0;
  /** An account with credits for some responses, and a socket of its. */
  async function open(path: string, credits = 1_000_000, models?: string[]) {
    accounts += 1;
    const userId = `usr_b${accounts}`;
    await gateway.gateway.credits?.topUp({ userId, credits, reference: userId });
    return {
      client: await SocketClient.open(
        `${gateway.url}${path}`,
        await gateway.newKey({ userId, ...(models && { models }) }),
      ),
      left: async () => (await gateway.gateway.credits?.balance(userId))?.creditsRemaining,
    };
  }

  for (const [form, send] of Object.entries(upstreamForms)) {
    it(`responses that an upstream sends ${form} are charged, and go on as they came`, async () => {
      const sent: Buffer[] = [];
      upstream.onEvent = ({ model }, socket) => {
        const sender = sentBy((event) => {
          send(socket, event);
          sent.push(event);
        });
        if (model === undefined) respond(sender);
        else answerResponse(sender, model);
      };
      for (const [path, create, last, used] of [
        ['/realtime?model=m', { type: 'response.create' }, 'response.done', realtimeUsage.total_tokens],
        ['/responses', { type: 'response.create', model: 'm', input: 'Hi' }, 'response.completed', 18],
      ] as const) {
        sent.length = 0;
        gateway.usage.length = 0;
        const { client, left } = await open(path);
        const ends = () => client.received.filter(({ data }) => data.includes(`"type":"${last}"`)).length;
        // a response that was not seen to end would keep the next one from beginning
        for (let count = 1; count <= 3; count += 1) {
          client.send(create);
          await gateway.charged(count);
        }
        for (const { estimated, ending, inputTokens, outputTokens } of gateway.usage) {
          expect([ending, estimated, inputTokens + outputTokens]).to.deep.equal(['complete', false, used]);
        }
        client.socket.close();
        await client.whenClosed();
        expect(ends()).to.equal(3);
        expect(client.received.map(({ isBinary }) => isBinary)).to.deep.equal(sent.map(() => form.includes('binary')));
        for (const [i, event] of sent.entries()) {
          expect(client.received[i]?.data.includes(event.subarray(0, -1)), `event ${i}`).to.equal(true);
        }
        const expected = 1_000_000 - 3 * used;
        expect(await eventually(left, (credits) => credits === expected)).to.equal(expected);
      }
    });
  }

  for (const [form, send] of Object.entries(forms)) {
    const isBinary = form.includes('binary');

    it(`what a client asks for ${form} is admitted and charged, and goes up as it came`, async () => {
      upstream.onEvent = ({ model }, socket) =>
        void (model === undefined ? respond(socket) : answerResponse(socket, model));
      for (const [path, create] of [
        ['/realtime?model=m', { type: 'response.create' }],
        ['/responses', { type: 'response.create', model: 'm', input: 'Hi' }],
      ] as const) {
        gateway.usage.length = 0;
        upstream.received.length = 0;
        const { client } = await open(path);
        const bytes = Buffer.from(JSON.stringify(create));
        send(client.socket, bytes);
        const [record] = await gateway.charged(1);
        expect(record).to.include({ ending: 'complete', estimated: false });
        expect(upstream.received).to.deep.equal([{ data: bytes, isBinary }]);
        client.socket.close();
        await client.whenClosed();
      }
    });

    it(`what a client asks for ${form} is refused as any other`, async () => {
      const { client } = await open('/responses', 100, ['m']);
      const ask = (event: object) =>
        send(client.socket, Buffer.from(JSON.stringify({ type: 'response.create', event_id: 'mine', ...event })));
      const expectRefused = async (code: string) => {
        expect((await client.event('error')).error).to.include({ code, event_id: 'mine' });
        client.received.length = 0;
      };
      ask({ model: 'other', input: 'Hi' });
      await expectRefused('model_not_allowed');
      ask({ model: 'm', input: 'Hi', previous_response_id: 'resp_of_another' });
      await expectRefused('response_not_found');
      upstream.onEvent = ({ model }, socket) => void answerResponse(socket, model);
      ask({ model: 'm', input: '' });
      await client.event('response.completed');
      client.received.length = 0;
      ask({ model: 'm', input: 'more than is left '.repeat(100) });
      await expectRefused('insufficient_credits');
      client.socket.close();
      await client.whenClosed();

      const session = await open('/realtime?model=m');
      send(
        session.client.socket,
        Buffer.from(JSON.stringify({ type: 'session.update', event_id: 'mine', session: { model: 'other' } })),
      );
      expect((await session.client.event('error')).error).to.include({ param: 'session.model', event_id: 'mine' });
      session.client.socket.close();
      await session.client.whenClosed();
      expect(upstream.received).to.have.length(1);
    });
  }

  it("an upstream's error in a binary frame is masked, and stays binary", async () => {
    upstream.onEvent = (_event, socket) =>
      socket.send(Buffer.from('{"type":"error","error":{"code":"server_error","message":"canary"}}'), { binary: true });
    for (const [path, create] of [
      ['/realtime?model=m', { type: 'response.create' }],
      ['/responses', { type: 'response.create', model: 'm', input: 'Hi' }],
    ] as const) {
      const { client } = await open(path);
      client.send(create);
      expect(JSON.stringify(await client.event('error'))).to.not.include('canary');
      expect(client.received.map(({ isBinary }) => isBinary)).to.deep.equal([true]);
      client.socket.close();
      await client.whenClosed();
    }
    expect(gateway.usage).to.deep.equal([]);
  });
});
