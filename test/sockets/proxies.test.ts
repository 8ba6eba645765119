import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { nobody } from '../support/listen.ts';
import { recordingLogger } from '../support/logger.ts';
import { ForwardProxy } from '../support/servers/forward-proxy.ts';
import { events, json, reset, ScriptedUpstream } from '../support/upstream.ts';
import { respond, SocketUpstream } from './socket-upstream.ts';
import { refusalOf, SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

const completion = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'far',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
};
const chunk = (content: string, finish_reason: string | null) => ({
  ...completion,
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: { content }, finish_reason }],
});
/** An upstream that serves the model of its name alone. */
const of = (name: string, more: object = {}) => ({
  ...{ name, models: [name], baseUrl: 'http://models.invalid/v1', apiKey: 'sk-up', priority: 1 },
  ...more,
});
const chat = (model: string) => ({ model, messages: [{ role: 'user' as const, content: 'Hi' }] });

describe('upstreams behind a proxy', () => {
  let upstream: ScriptedUpstream;
  let socketUpstream: SocketUpstream;
  let proxy: ForwardProxy;
  let ownProxy: ForwardProxy;
  let gateway: SocketGateway;
  const logger = recordingLogger();
  const credentials = 'us%20er:canary-pass%40word';

  before(async () => {
    upstream = await ScriptedUpstream.start();
    socketUpstream = await SocketUpstream.start();
    proxy = await ForwardProxy.start({ credentials: decodeURIComponent(credentials) });
    ownProxy = await ForwardProxy.start();
    proxy.hosts['models.invalid'] = Number(new URL(upstream.baseUrl).port);
    proxy.hosts['sockets.invalid'] = Number(new URL(socketUpstream.baseUrl).port);
    ownProxy.hosts['own.invalid'] = Number(new URL(upstream.baseUrl).port);
    gateway = await startSocketGateway({
      proxy: proxy.url(credentials),
      modelCalls: { attempts: 1 },
      logger,
      upstreams: [
        of('far', { priority: 0 }),
        of('talk', { baseUrl: 'http://sockets.invalid/v1' }),
        of('own', { baseUrl: 'http://own.invalid/v1', proxy: ownProxy.url() }),
        of('near', { baseUrl: upstream.baseUrl, proxy: false }),
        of('unauthorized', { proxy: proxy.url('somebody:canary-wrong') }),
        of('dropped'),
        of('gone', { proxy: nobody.replace('/v1', '').replace('//', '//somebody:canary-gone@') }),
        ...['denied', 'unreachable', 'slow'].map((name) => of(name)),
        of('silent', { timeouts: { connect: 300 } }),
      ],
    });
  });
  afterEach(() => {
    proxy.behaviour = 'tunnel';
    proxy.tunnels.length = 0;
    upstream.requests.length = 0;
  });
  after(async () => {
    await gateway.close();
    await Promise.all([proxy, ownProxy, upstream, socketUpstream].map((server) => server.close()));
  });

  it('get chats, plain and streamed, over one kept connection through it, and no credentials of it', async () => {
    upstream.script = json(200, completion);
    for (let i = 0; i < 2; i += 1) {
      const { choices } = await gateway.plain.chat.completions.create(chat('far'));
      expect(choices[0]?.message.content).to.equal('Hello');
    }
    upstream.script = events([chunk('Hel', null), chunk('lo', 'stop')]);
    const stream = await gateway.plain.chat.completions.create({ ...chat('far'), stream: true });
    let text = '';
    for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
    expect(text).to.equal('Hello');
    expect(proxy.tunnels).to.deep.equal(['models.invalid:80']);
    expect(upstream.last).to.deep.include({ method: 'POST', path: '/v1/chat/completions' });
    expect(upstream.last.headers)
      .to.include({ host: 'models.invalid', authorization: 'Bearer sk-up' })
      .and.not.have.property('proxy-authorization');
  });

  it('get forms and files through it, and a file on a connection of its own', async () => {
    upstream.script = json(200, { created: 1, data: [{ b64_json: 'aGk=' }] });
    const image = await toFile(Buffer.alloc(200_000, 7), 'a.png', { type: 'image/png' });
    const { data } = await gateway.plain.images.edit({ model: 'far', image, prompt: 'more' });
    expect(data?.[0]?.b64_json).to.equal('aGk=');
    expect(upstream.last.body.length).to.be.greaterThan(200_000);
    proxy.tunnels.length = 0;
    const file = { id: 'file-1', object: 'file', bytes: 200_000, created_at: 1, filename: 'a.png', purpose: 'vision' };
    upstream.script = json(200, file);
    expect(await gateway.plain.files.create({ file: image, purpose: 'vision' })).to.include({ id: 'file-1' });
    expect(upstream.last.headers.host).to.equal('models.invalid');
    expect(upstream.last.body.length).to.be.greaterThan(200_000);
    expect(proxy.tunnels).to.deep.equal(['models.invalid:80']);
  });

  it('get WebSockets through it', async () => {
    socketUpstream.onEvent = ({ type }, socket) => {
      if (type === 'response.create') respond(socket);
    };
    const client = await SocketClient.open(`${gateway.url}/realtime?model=talk`, gateway.key);
    client.send({ type: 'response.create' });
    await client.event('response.done');
    expect(proxy.tunnels).to.deep.equal(['sockets.invalid:80']);
    expect(socketUpstream.handshakes[0]?.headers).to.not.have.property('proxy-authorization');
    client.socket.close();
  });

  it('are called through their own proxy, or without any, where their options say so', async () => {
    upstream.script = json(200, completion);
    await gateway.plain.chat.completions.create(chat('own'));
    expect(ownProxy.tunnels).to.deep.equal(['own.invalid:80']);
    await gateway.plain.chat.completions.create(chat('near'));
    expect(upstream.requests).to.have.length(2);
    expect(proxy.tunnels).to.deep.equal([]);
  });

  it('that drop a call on a new connection have failed: it is not sent again, as on a kept one', async () => {
    upstream.script = reset();
    const error = await gateway.plain.chat.completions.create(chat('dropped')).catch((thrown) => thrown);
    expect(error).to.include({ status: 502, code: 'upstream_disconnected' });
    expect(upstream.requests).to.have.length(1);
  });

  it('that refuse are asked once, and the next upstream is tried', async () => {
    const retrying = await startSocketGateway({
      modelCalls: { attempts: 3 },
      upstreams: [
        of('twice', { name: 'first', proxy: proxy.url('somebody:canary-wrong'), priority: 0 }),
        of('twice', { name: 'second', baseUrl: upstream.baseUrl, proxy: false }),
        of('alone', { proxy: proxy.url('somebody:canary-wrong') }),
      ],
    });
    upstream.script = json(200, completion);
    await retrying.plain.chat.completions.create(chat('twice'));
    expect(proxy.tunnels).to.have.length(1);
    const error = await retrying.plain.chat.completions.create(chat('alone')).catch((thrown) => thrown);
    expect(error).to.include({ status: 502, code: 'upstream_auth_failed' });
    expect(proxy.tunnels).to.have.length(2);
    await retrying.close();
  });

  it('behind which nobody answers a handshake have failed after the time to connect, and the next is tried', async () => {
    const mute = createServer().on('upgrade', () => {});
    const hanging = await new Promise<number>((resolve) =>
      mute.listen(0, '127.0.0.1', () => resolve((mute.address() as AddressInfo).port)),
    );
    proxy.hosts['mute.invalid'] = hanging;
    const failingOver = await startSocketGateway({
      proxy: proxy.url(),
      upstreams: [
        of('talk', { name: 'mute', baseUrl: 'http://mute.invalid/v1', timeouts: { connect: 300 }, priority: 0 }),
        of('talk', { name: 'speaking', baseUrl: 'http://sockets.invalid/v1' }),
      ],
    });
    const client = await SocketClient.open(`${failingOver.url}/realtime?model=talk`, failingOver.key);
    expect(proxy.tunnels).to.deep.equal(['mute.invalid:80', 'sockets.invalid:80']);
    client.socket.close();
    await failingOver.close();
    mute.closeAllConnections();
    mute.close();
  });

  const failures = [
    ['wants other credentials', 'unauthorized', 'tunnel', 502, 'upstream_auth_failed', 'proxy_refused'],
    ['does not allow the host', 'denied', 403, 502, 'upstream_auth_failed', 'proxy_refused'],
    ['cannot reach the host', 'unreachable', 502, 502, 'upstream_unreachable', 'connect_failed'],
    ['waits in vain for the host', 'slow', 504, 504, 'upstream_timeout', 'connect_timeout'],
    ['never answers', 'silent', 'hang', 504, 'upstream_timeout', 'connect_timeout'],
    ['is not there', 'gone', 'tunnel', 502, 'upstream_unreachable', 'proxy_unreachable'],
  ] as const;
  for (const [what, model, behaviour, status, code, reason] of failures) {
    it(`are 502 or 504 where the proxy ${what}, for calls and WebSockets, and nothing tells its password`, async () => {
      proxy.behaviour = behaviour;
      logger.lines.length = 0;
      const error = await gateway.plain.chat.completions.create(chat(model)).then(
        () => undefined,
        (thrown) => thrown,
      );
      expect(error).to.be.instanceOf(OpenAI.APIError).and.include({ status, code });
      const refusal = await refusalOf(`${gateway.url}/realtime?model=${model}`, {
        authorization: `Bearer ${gateway.key}`,
      });
      expect({ status: refusal.status, code: refusal.body.error.code }).to.deep.equal({ status, code });
      expect(upstream.requests).to.deep.equal([]);
      const said = JSON.stringify([error, refusal, logger.lines]);
      expect(said).to.not.include('canary').and.not.include('Basic ');
      const told = logger.lines.filter(({ message }) => message === 'an upstream fails');
      expect(told.map(({ fields }) => fields?.reason)).to.deep.equal([reason]);
    });
  }
});
