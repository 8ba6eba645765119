import { expect } from 'chai';
import type { TestProxyOptions } from '../support/model-proxy.ts';
import { until } from '../support/until.ts';
import { answerResponse, respond, SocketUpstream } from './socket-upstream.ts';
import { SocketClient, startSockets } from './support.ts';

/** Numbers from 0 to below 1 that look random and are the same in each run. */
function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

describe('whatever becomes of a WebSocket', () => {
  it('what was opened for it is closed once: admissions, usage records, places at the upstream, the socket itself', async () => {
    const upstream = await SocketUpstream.start();
    const admissions: string[] = [];
    const records = new Map<string, string[]>();
    const ended: number[] = [];
    const note = (id: string, what: string) => void records.set(id, [...(records.get(id) ?? []), what]);
    const relaying: Partial<TestProxyOptions> = {
      admissionChecks: [
        async () => {
          // as if the database were asked
          await new Promise(setImmediate);
          const at = admissions.push('open') - 1;
          const end = (how: string) => {
            admissions[at] = admissions[at] === 'open' ? how : 'twice';
          };
          return { closed: () => end('closed'), dropped: () => end('dropped') };
        },
      ],
      usageRecorder: {
        opened: ({ id }) => note(id, 'opened'),
        closed: ({ id }) => note(id, 'closed'),
        dropped: (id) => note(id, 'dropped'),
      },
    };
    const observers = [{ ended: ({ durationMs }: { readonly durationMs: number }) => void ended.push(durationMs) }];
    const { proxy, url, drain, close } = await startSockets(upstream, relaying, { observers });
    const random = sequence(7);
    upstream.onEvent = ({ model, type }, socket) => {
      const kind = random();
      if (type !== 'response.create' || kind < 0.1) return;
      if (kind < 0.2) socket.terminate();
      else if (kind < 0.3) socket.send('{"type":"error","error":{"message":"no"}}');
      else if (kind < 0.4) socket.send('{"type":"response.created","response":{"id":"resp_never"}}');
      else if (kind < 0.5) socket.close(1_000);
      else if (model === undefined) respond(socket);
      else answerResponse(socket, model);
    };

    async function use(path: string): Promise<void> {
      const client = await SocketClient.open(`${url}${path}`, 'key');
      for (let step = 0; step < 8 && !client.closed; step += 1) {
        const kind = random();
        if (kind < 0.1) client.socket.terminate();
        else if (kind < 0.15) client.socket.close(1_000);
        else if (kind < 0.2) client.socket.send(Buffer.alloc(2_000), { binary: true });
        else if (kind < 0.3) client.socket.send('no JSON');
        else
          client.send({ type: 'response.create', ...(path.startsWith('/responses') && { model: 'm', store: false }) });
        for (let turn = random() * 4; turn > 0; turn -= 1) await new Promise(setImmediate);
      }
    }
    const paths = Array.from({ length: 150 }, (_, i) => (i % 2 ? '/realtime?model=m' : '/responses'));
    await Promise.all(paths.map(use));
    await drain();
    await until(() => ended.length === paths.length, undefined, 'every socket has ended');
    const isCharged = (how: string) => how === 'closed';
    expect(admissions.filter((how) => how !== 'dropped' && !isCharged(how))).to.deep.equal([]);
    expect(admissions.filter(isCharged).length).to.be.above(20);
    const lives = new Set([...records.values()].map((life) => life.join(' ')));
    expect([...lives].sort()).to.deep.equal(['opened closed', 'opened dropped']);
    expect(proxy.states().map(({ calls }) => calls)).to.deep.equal([0]);
    await until(() => upstream.sockets.every((socket) => socket.readyState === 3), undefined, 'upstream sockets end');
    close();
    await upstream.close();
  });
});
