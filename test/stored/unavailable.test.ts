import { expect } from 'chai';
import type OpenAI from 'openai';
import { GatewayError } from '../../src/index.ts';
import type { StoredObjects } from '../../src/stored/service.ts';
import { startModelServer } from '../support/model-server.ts';
import { noStoredObjects } from '../support/no-stored-objects.ts';
import { chunks, json, ScriptedUpstream } from '../support/upstream.ts';
import { failure, responseOf, streamOf } from './support.ts';

const databaseUnavailable = (cause?: unknown) =>
  new GatewayError('database_unavailable', 'The database is unavailable', { cause });

describe('what upstreams keep, while the database is unavailable', () => {
  let upstream: ScriptedUpstream;

  before(async () => {
    upstream = await ScriptedUpstream.start();
  });

  after(() => upstream.close());

  async function withClient(storedObjects: Partial<StoredObjects>, use: (client: OpenAI) => Promise<void>) {
    const server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      storedObjects: { ...noStoredObjects, ...storedObjects },
    });
    try {
      await use(server.client());
    } finally {
      await server.close();
    }
  }

  const ask = { model: 'm', input: 'Hi' };

  it('is not created: a call that stores is refused before the upstream is called, and any other is served', async () => {
    const require = () => {
      throw databaseUnavailable();
    };
    await withClient({ require }, async (client) => {
      const calls = upstream.requests.length;
      const messages = [{ role: 'user' as const, content: 'Hi' }];
      for (const call of [
        () => client.responses.create(ask),
        () => client.responses.create({ ...ask, stream: true }),
        () => client.conversations.create({}),
        () => client.chat.completions.create({ model: 'm', messages, store: true }),
      ]) {
        const { status, code } = await failure(call());
        expect([status, code]).to.deep.equal([503, 'database_unavailable']);
      }
      expect(upstream.requests).to.have.lengthOf(calls);
      upstream.script = json(200, responseOf('resp_1'));
      expect((await client.responses.create({ ...ask, store: false })).id).to.equal('resp_1');
    });
  });

  it('does not reach the client when the record fails after the upstream has answered', async () => {
    const add = () => Promise.reject(databaseUnavailable(new Error('lost')));
    await withClient({ add }, async (client) => {
      upstream.script = json(200, responseOf('resp_1'));
      const plain = await failure(client.responses.create(ask));
      expect([plain.status, plain.code]).to.deep.equal([503, 'database_unavailable']);
      upstream.script = chunks(streamOf('resp_1'));
      const stream = await client.responses.create({ ...ask, stream: true });
      const types: string[] = [];
      const thrown = await failure(
        (async () => {
          for await (const { type } of stream) types.push(type);
        })(),
      );
      expect([types, thrown.code]).to.deep.equal([[], 'database_unavailable']);
    });
  });
});
