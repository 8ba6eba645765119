import { expect } from 'chai';
import { GatewayError, type ModelAnswer, type ModelCall } from '../../src/index.ts';
import { answerResponse, respond, SocketUpstream } from './socket-upstream.ts';
import { refusalOf, SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

describe("the host's hooks", () => {
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  const requests: ModelCall[] = [];
  const answers: ModelAnswer[] = [];
  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      onRequest(call) {
        requests.push(call);
        if (call.model === 'forbidden') throw new GatewayError('model_not_allowed', 'Not today');
        return call.model === 'replaced' ? { model: 'other' } : undefined;
      },
      onResponse: (answer) => void answers.push(answer),
    });
  });
  beforeEach(() => {
    upstream.reset();
    for (const list of [requests, answers, gateway.usage]) list.length = 0;
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
  });

  it('are asked once for a realtime session, whose model they may replace, and told of each response', async () => {
    upstream.onEvent = (_event, socket) => respond(socket);
    const client = await SocketClient.open(`${gateway.url}/realtime?model=replaced&x=1`, gateway.key);
    expect(upstream.handshakes[0]?.url).to.equal('/v1/realtime?model=other&x=1');
    for (let count = 1; count <= 2; count += 1) {
      client.send({ type: 'response.create' });
      await client.event('response.done', count);
    }
    expect(requests.map(({ endpoint, model }) => [endpoint, model])).to.deep.equal([['/realtime', 'replaced']]);
    expect(answers.map(({ upstream: name, status, model }) => [name, status, model])).to.deep.equal([
      ['up', 200, 'replaced'],
      ['up', 200, 'replaced'],
    ]);
    expect((await gateway.charged(2)).map(({ model }) => model)).to.deep.equal(['replaced', 'replaced']);
    client.socket.close();
    await client.whenClosed();
    const refused = await refusalOf(`${gateway.url}/realtime?model=forbidden`, {
      authorization: `Bearer ${gateway.key}`,
    });
    expect([refused.status, refused.body.error.message]).to.deep.equal([403, 'Not today']);
  });

  it('are asked for each response on a socket of those', async () => {
    upstream.onEvent = ({ model }, socket) => void answerResponse(socket, model);
    const client = await SocketClient.open(`${gateway.url}/responses`, gateway.key);
    expect(requests).to.deep.equal([]);
    client.send({ type: 'response.create', model: 'forbidden', input: 'Name a river' });
    expect((await client.event('error')).error.message).to.equal('Not today');
    client.send({ type: 'response.create', model: 'replaced', input: 'Name a river' });
    expect((await client.event('response.completed')).response.model).to.equal('other');
    expect(requests.map(({ endpoint, model }) => [endpoint, model])).to.deep.equal([
      ['/responses', 'forbidden'],
      ['/responses', 'replaced'],
    ]);
    expect((await gateway.charged(1))[0]).to.include({ model: 'replaced' });
    client.socket.close();
    await client.whenClosed();
  });
});
