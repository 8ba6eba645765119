import { expect } from 'chai';
import { answerResponse, respond, SocketUpstream } from '../sockets/socket-upstream.ts';
import { refusalOf, SocketClient, type SocketGateway, startSocketGateway } from '../sockets/support.ts';
import { type SpecSchema, spec } from '../support/openapi.ts';
import { misfits } from '../support/spec.ts';

/** What openapi.yaml says of a WebSocket. */
interface SpecSocket {
  readonly 'x-scope': string;
  readonly subprotocols: readonly string[];
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
  readonly clientEvents: readonly SpecSchema[];
  readonly serverEvents: readonly SpecSchema[];
}

const sockets = Object.entries(spec.paths).flatMap(([path, item]) => {
  const socket = (item as { readonly 'x-websocket'?: SpecSocket })['x-websocket'];
  return socket ? [{ path, ...socket }] : [];
});

const fits = (schemas: readonly SpecSchema[], event: unknown) =>
  schemas.some((schema) => misfits(schema, event) === '');

describe('x-websocket of openapi.yaml', () => {
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({ upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }] });
  });
  beforeEach(() => upstream.reset());
  after(async () => {
    await gateway.close();
    await upstream.close();
  });

  const urlOf = (path: string) => `${gateway.url}${path.slice('/v1'.length)}`;

  it('is on the paths that take WebSockets, and on no others', async () => {
    expect(sockets.map(({ path }) => path).sort()).to.deep.equal([
      '/v1/realtime',
      '/v1/realtime/translations',
      '/v1/responses',
    ]);
    const isPlain = (path: string) => !path.includes('{') && !sockets.some((socket) => socket.path === path);
    for (const path of Object.keys(spec.paths).filter(isPlain)) {
      const { status } = await refusalOf(urlOf(path), { authorization: `Bearer ${gateway.key}` });
      expect(status, path).to.equal(426);
    }
  });

  for (const { path, subprotocols, parameters, clientEvents, serverEvents, 'x-scope': scope } of sockets) {
    describe(path, () => {
      it('says the scope that a key needs', async () => {
        const key = await gateway.newKey({ scopes: ['webhooks'] });
        const { status, body } = await refusalOf(`${urlOf(path)}?model=m`, { authorization: `Bearer ${key}` });
        expect([status, body.error.code]).to.deep.equal([403, 'insufficient_scope']);
        expect(body.error.message).to.include(scope);
      });

      it('has subprotocols that the gateway takes, and of which it shows no secret', async () => {
        const offered = subprotocols.map((protocol) =>
          protocol.replace('{key}', gateway.key).replace('{feature}', 'a-v1'),
        );
        const client = await SocketClient.open(`${urlOf(path)}?model=m`, gateway.key, offered);
        expect(offered.filter((protocol) => !protocol.includes(gateway.key))).to.include(client.socket.protocol);
        expect(upstream.handshakes[0]?.headers['openai-beta']).to.equal('a=v1');
        client.socket.close();
        await client.whenClosed();
      });

      it('has events that pass, and those that come back', async () => {
        const isTranslation = path === '/v1/realtime/translations';
        const asked = isTranslation
          ? { type: 'session.input_audio_buffer.append', audio: 'AAAA' }
          : { type: 'response.create', event_id: 'mine', model: 'm', input: 'Name a river' };
        const wrong = { type: 'response.create', event_id: 'mine', model: 'm', previous_response_id: 'resp_unknown' };
        expect(fits(clientEvents, asked)).to.equal(true);
        expect(fits(clientEvents, { event_id: 'untyped' })).to.equal(false);
        upstream.onEvent = (_event, socket) => {
          if (path === '/v1/realtime') respond(socket);
          else if (path === '/v1/responses') answerResponse(socket, 'm');
          else {
            socket.send('{"type":"session.output_audio.delta","event_id":"e1","delta":"AAAA"}');
            socket.send('{"type":"session.closed","event_id":"e2"}');
          }
        };
        const client = await SocketClient.open(`${urlOf(path)}?model=m`, gateway.key);
        client.send(asked);
        await client.event(isTranslation ? 'session.closed' : 'response.created');
        await gateway.charged(1);
        if (path === '/v1/responses') client.send(wrong);
        else client.socket.send('{');
        await client.event('error');
        for (const event of client.events) expect(fits(serverEvents, event), JSON.stringify(event)).to.equal(true);
        const [error] = client.events.filter(({ type }) => type === 'error');
        expect(misfits({ $ref: '#/components/schemas/SocketError' }, error)).to.equal('');
        client.socket.close();
        await client.whenClosed();
        gateway.usage.length = 0;
      });

      it('has the parameters of the query that the gateway reads', async () => {
        for (const { name, in: place } of parameters) {
          expect(place).to.equal('query');
          const twice = await refusalOf(`${urlOf(path)}?${name}=a&${name}=b`, {
            authorization: `Bearer ${gateway.key}`,
          });
          expect([twice.status, twice.body.error.param], name).to.deep.equal([400, name]);
        }
      });
    });
  }

  it('is among what uses the schemas: none is there for nothing', () => {
    const used = new Set([...JSON.stringify(spec).matchAll(/#\/components\/(\w+\/\w+)/g)].map(([, name]) => name));
    for (const kind of ['schemas', 'responses', 'parameters', 'headers', 'examples']) {
      for (const name of Object.keys(spec.components[kind] ?? {})) expect(used, name).to.include(`${kind}/${name}`);
    }
  });
});
