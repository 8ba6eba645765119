import { expect } from 'chai';
import { python, skipWithout } from '../../documentation/runtimes.ts';
import { SocketUpstream } from '../../sockets/socket-upstream.ts';
import { type SocketGateway, startSocketGateway } from '../../sockets/support.ts';
import { runProgram } from './program.ts';

describe("a translation session of OpenAI's client for Python", function () {
  this.timeout(600_000);
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  before(async function () {
    skipWithout(this, python);
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({ upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }] });
  });
  after(async () => {
    await gateway?.close();
    await upstream?.close();
  });

  it('is opened, spoken in and closed as the client does it, and charged for its second', async () => {
    const session = { id: 'sess_1', type: 'translation', model: 'm', expires_at: 4_000_000_000, audio: {} };
    upstream.onOpen = (socket) => socket.send(JSON.stringify({ type: 'session.created', event_id: 'e1', session }));
    upstream.onEvent = ({ type, audio }, socket) => {
      if (type === 'session.input_audio_buffer.append') {
        socket.send(JSON.stringify({ type: 'session.output_audio.delta', event_id: 'e2', delta: audio }));
      }
      if (type === 'session.close') socket.send(JSON.stringify({ type: 'session.closed', event_id: 'e3' }));
    };
    const came = await runProgram('translation.py', gateway.url.replace('ws:', 'http:'), gateway.key);
    expect(came).to.deep.equal([
      ['RealtimeTranslationSessionCreatedEvent', 'session.created'],
      ['RealtimeTranslationOutputAudioDeltaEvent', 'session.output_audio.delta'],
      ['RealtimeTranslationSessionClosedEvent', 'session.closed'],
    ]);
    expect(upstream.handshakes.map(({ url }) => url)).to.deep.equal(['/v1/realtime/translations?model=m']);
    const [record] = await gateway.charged(1);
    expect(record).to.include({ endpoint: '/realtime/translations', model: 'm', seconds: 1, inputTokens: 10 });
  });
});
