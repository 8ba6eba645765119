import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { HeldClock, leastDatabaseWait } from '../support/clock.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { ends, KeptConnections } from '../support/kept-connections.ts';
import { freshDatabase } from '../support/mongo.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';
import { failure } from './support.ts';

/** More failures than open a breaker. */
const many = 6;
const line = JSON.stringify({
  custom_id: 'a',
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 10 },
});

for (const [how, end] of Object.entries(ends)) {
  describe(`A kept connection that ${how} as the next request about something stored arrives`, () => {
    let upstream: ScriptedUpstream;
    let connections: KeptConnections;
    let database: Awaited<ReturnType<typeof freshDatabase>>;
    let gateway: LiveGateway;
    let client: OpenAI;
    let fileId: string;
    /** Holds answers about the file until so many have been asked for. */
    let together: number;
    let clock: HeldClock;

    beforeEach(async () => {
      clock = new HeldClock(leastDatabaseWait);
      upstream = await ScriptedUpstream.start();
      connections = new KeptConnections();
      database = await freshDatabase();
      gateway = await startGateway({
        mongo: database.connection,
        upstreams: [{ name: 'a', baseUrl: upstream.baseUrl }],
        modelCalls: { attempts: 1 },
      });
      client = new OpenAI({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
      let made = 0;
      let waiting: (() => void)[] = [];
      together = 1;
      upstream.script = connections.script(async (res, request) => {
        const { method, path } = request;
        const [, kind = '', id, part] = path.replace(/^\/v1/, '').split('/');
        made += 1;
        res.setHeader('keep-alive', 'timeout=600');
        if (part === 'content') return void res.end(line);
        if (method === 'DELETE') return json(200, { id, deleted: true })(res, request);
        if (kind === 'files' && method === 'GET') {
          const all = new Promise<void>((resolve) => waiting.push(resolve));
          if (waiting.length === together) {
            for (const resolve of waiting) resolve();
            waiting = [];
          }
          await all;
        }
        const object = { id: id ?? `${kind}-${made}`, object: kind, bytes: 4, created_at: 1, purpose: 'batch' };
        return json(200, { ...object, filename: 'a.jsonl', status: 'validating' })(res, request);
      });
      const file = await toFile(Buffer.from(line), 'a.jsonl');
      fileId = (await client.files.create({ file, purpose: 'batch' })).id;
    });
    afterEach(async () => {
      clock.release();
      await upstream.close();
      await gateway.close();
      await database.drop();
    });

    /** Has the gateway keep so many connections, which end when a next request has come on each. */
    async function keep(count: number): Promise<void> {
      together = count;
      await Promise.all(Array.from({ length: count }, () => client.files.retrieve(fileId)));
      together = 1;
      connections.served.length = 0;
      connections.endOnReuse(end, { together: count });
    }
    const served = () => connections.served.map(({ method, path }) => `${method} ${path}`);

    it('has a call sent again that may be made twice', async () => {
      await keep(1);
      expect((await client.files.retrieve(fileId)).id).to.equal(fileId);
      expect([connections.lost, served()]).to.deep.equal([1, [`GET /v1/files/${fileId}`]]);
    });

    it('has a deletion sent again', async () => {
      await keep(1);
      expect((await client.files.delete(fileId)).deleted).to.equal(true);
      expect([connections.lost, served()]).to.deep.equal([1, [`DELETE /v1/files/${fileId}`]]);
    });

    it("has the gateway's own reads sent again, and what they are for is made once", async () => {
      await keep(1);
      await client.batches.create({
        input_file_id: fileId,
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
      });
      expect(connections.lost).to.equal(1);
      expect(served()).to.deep.equal([`GET /v1/files/${fileId}/content`, 'POST /v1/batches']);
    });

    it('fails calls that must not be made twice, which are sent once and count for no breaker', async () => {
      await keep(many);
      const failures = Array.from({ length: many }, () => failure(client.vectorStores.create({ name: 'a' })));
      for (const { status, headers } of await Promise.all(failures)) {
        expect([status, headers?.get('x-should-retry')]).to.deep.equal([502, 'false']);
      }
      expect(connections.lost).to.equal(many);
      expect(served()).to.deep.equal([]);
      await client.vectorStores.create({ name: 'a' });
      expect(served()).to.deep.equal(['POST /v1/vector_stores']);
    });

    it('is never used for a file that goes up', async () => {
      await keep(many);
      const file = await toFile(Buffer.from(line), 'b.jsonl');
      await Promise.all(Array.from({ length: many }, () => client.files.create({ file, purpose: 'batch' })));
      expect([connections.lost, served()]).to.deep.equal([0, Array(many).fill('POST /v1/files')]);
    });
  });
}
