import { expect } from 'chai';
import { connectRaw, head } from '../http/raw-client.ts';
import { callerKey, type ModelServer, startModelServer } from '../support/model-server.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';

const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }] };

describe('the query of a model call', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer | undefined;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { object: 'list', data: [], choices: [{}] });
  });
  after(() => upstream.close());
  afterEach(() => server?.close());

  const start = async (search = '') => {
    server = await startModelServer({ upstreams: [{ name: 'one', baseUrl: upstream.baseUrl + search }] });
    return server;
  };

  async function sent(search: string): Promise<string> {
    const response = await fetch(`${server?.baseUrl}/chat/completions${search}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(ask),
    });
    expect(response.status).to.equal(200);
    return upstream.last.path.replace('/v1/chat/completions', '');
  }

  it("reaches the upstream as OpenAI's client sends it", async () => {
    const { client } = await start();
    await client().chat.completions.create(ask, { query: { tier: 'a b', include: ['x', 'y'] } });
    expect(upstream.last.path).to.equal('/v1/chat/completions?tier=a%20b&include%5B%5D=x&include%5B%5D=y');
  });

  for (const search of [
    '?a=1&a=2&b',
    '?',
    "?x='%20%2F%zz+;[]{}|^~`\\",
    '?url=https://a.example/b?c=d&&=',
    '?a=..%2F..%2F/../x',
  ]) {
    it(`reaches the upstream byte for byte: ${search}`, async () => {
      await start();
      expect(await rawPath(search)).to.equal(`/v1/chat/completions${search}`);
    });
  }

  /** Sends the target as it is: fetch would encode some of it. */
  async function rawPath(search: string): Promise<string> {
    const { port } = new URL(String(server?.baseUrl));
    const client = connectRaw(Number(port));
    const body = JSON.stringify(ask);
    client.write(
      head('POST', `/v1/chat/completions${search}`, {
        connection: 'close',
        authorization: `Bearer ${callerKey}`,
        'content-type': 'application/json',
        'content-length': String(body.length),
      }) + body,
    );
    expect(await client.ended()).to.match(/^HTTP\/1\.1 200 /);
    return upstream.last.path;
  }

  it('comes after the query of the base URL, and cannot replace its parameters', async () => {
    await start('/?api-version=2026-01-01&x');
    expect(await sent('')).to.equal('?api-version=2026-01-01&x');
    expect(await sent('?tier=a&b')).to.equal('?api-version=2026-01-01&x&tier=a&b');
    expect(await sent('?api-version=other&tier=a&%61pi-version=other&x=1')).to.equal(
      '?api-version=2026-01-01&x&tier=a',
    );
  });

  it('is that of the base URL alone where the gateway asks for the list of models', async () => {
    const { client } = await start('?api-version=2026-01-01');
    await client().models.list();
    expect(upstream.last.path).to.equal('/v1/models?api-version=2026-01-01');
  });
});
