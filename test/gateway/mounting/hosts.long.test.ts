import { expect } from 'chai';
import express, { type Express, type RequestHandler } from 'express';
import express4 from 'express4';
import mongoose, { type Connection } from 'mongoose';
import OpenAI from 'openai';
import { createModelGateway, keepRawBody, type ModelGateway } from '../../../src/index.ts';
import { createGateway, loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { freshDatabase } from '../../support/mongo.ts';

type Framework = { (): Express; json: typeof express.json };

const frameworks = { 'Express 4': express4 as Framework, 'Express 5': express as Framework };
const prefixes = ['', '/api/llm'];
const bodyParsers: Record<string, (framework: Framework) => RequestHandler | undefined> = {
  'no parser before it': () => undefined,
  "the host's express.json() before it": (framework) => framework.json(),
  "the host's express.json({ verify: keepRawBody }) before it": (framework) => framework.json({ verify: keepRawBody }),
};

/** An upstream that answers with what it was sent, as text inside a chat completion. */
async function echoUpstream() {
  return listen(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    res.setHeader('content-type', 'application/json');
    const message = { role: 'assistant', content: Buffer.concat(chunks).toString() };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    res.end(JSON.stringify({ id: 'c1', object: 'chat.completion', created: 1, model: 'm', choices }));
  });
}

describe('a host app with the router mounted', () => {
  let upstream: Awaited<ReturnType<typeof echoUpstream>>;
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateway: ModelGateway;
  let key: string;

  before(async () => {
    upstream = await echoUpstream();
    database = await freshDatabase();
    gateway = await createGateway({
      mongo: database.connection,
      upstreams: [{ name: 'echo', baseUrl: `${upstream.url}/v1`, apiKey: 'up' }],
    });
    ({ key } = await gateway.keys.create({ userId: 'usr_1' }));
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
    await database.drop();
  });

  for (const [frameworkName, framework] of Object.entries(frameworks)) {
    for (const prefix of prefixes) {
      for (const [parserName, parserOf] of Object.entries(bodyParsers)) {
        describe(`${frameworkName}, at ${prefix || 'the root'}, ${parserName}`, () => {
          let host: Awaited<ReturnType<typeof listen>>;
          let base: string;

          before(async () => {
            const app = framework();
            const parser = parserOf(framework);
            if (parser) app.use(parser);
            if (prefix) app.use(prefix, gateway.router);
            else app.use(gateway.router);
            app.options(`${prefix}/v1/webhooks`, (_req, res) => void res.status(204).set('x-host', 'cors').end());
            app.post(`${prefix}/v1/other`, (req, res) => void res.json({ host: true, body: req.body ?? null }));
            app.get('/health', (_req, res) => void res.send('ok'));
            host = await listen(app);
            base = `${host.url}${prefix}/v1`;
          });
          after(() => host.close());

          it('lets an OpenAI client chat', async () => {
            const openai = new OpenAI({ baseURL: base, apiKey: key, maxRetries: 0 });
            const answer = await openai.chat.completions.create({
              model: 'm',
              messages: [{ role: 'user', content: 'héllo' }],
            });
            const seen = JSON.parse(answer.choices[0]?.message.content ?? '');
            expect(seen).to.deep.equal({ model: 'm', messages: [{ role: 'user', content: 'héllo' }] });
          });

          it('creates, lists and deletes a webhook', async () => {
            const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
            const created = await fetch(`${base}/webhooks`, {
              method: 'POST',
              headers,
              body: '{"url":"http://127.0.0.1:1/hook","events":["credits.low"],"secret":"long-enough"}',
            });
            expect(created.status).to.equal(201);
            const { id } = (await created.json()) as { id: string };
            const list = (await (await fetch(`${base}/webhooks`, { headers })).json()) as { data: { id: string }[] };
            expect(list.data.map((webhook) => webhook.id)).to.deep.equal([id]);
            const removed = await fetch(`${base}/webhooks/${id}`, { method: 'DELETE', headers });
            expect(await removed.json()).to.deep.equal({ id, deleted: true });
          });

          it("leaves the host's own routes and its OPTIONS alone", async () => {
            const options = await fetch(`${base}/webhooks`, { method: 'OPTIONS' });
            expect([options.status, options.headers.get('x-host'), options.headers.get('x-request-id')]).to.deep.equal([
              204,
              'cors',
              null,
            ]);
            const other = await fetch(`${base}/other`, {
              method: 'POST',
              headers: { 'content-type': 'application/json' },
              body: '{"a":1}',
            });
            expect(await other.json()).to.deep.equal({ host: true, body: parserOf(framework) ? { a: 1 } : null });
            expect(await (await fetch(`${host.url}/health`)).text()).to.equal('ok');
          });
        });
      }
    }
  }

  it('sends 64-bit integers to the upstream unchanged after a host parser that keeps the raw bytes', async () => {
    const app = express().use(express.json({ verify: keepRawBody }), gateway.router);
    const host = await listen(app);
    const body = '{"model":"m","messages":[{"role":"user","content":"x"}],"seed":9007199254740993}';
    const answer = await fetch(`${host.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body,
    });
    const { choices } = (await answer.json()) as { choices: { message: { content: string } }[] };
    expect(choices[0]?.message.content).to.equal(body);
    await host.close();
  });
});

describe("a gateway beside a host's own mongoose", () => {
  let connection: Connection;
  let drop: () => Promise<void>;

  before(async () => {
    ({ connection, drop } = await freshDatabase());
  });
  after(() => drop());

  it("leaves the host's models, global settings and connection as they were", async () => {
    const HostWebhook = connection.model('Webhook', new mongoose.Schema({ mine: String }));
    await HostWebhook.create({ mine: 'yes' });
    const settings = JSON.stringify([mongoose.get('strictQuery'), mongoose.get('autoIndex'), mongoose.modelNames()]);
    const gateway = await createGateway({ mongo: connection });
    await gateway.start();
    await gateway.close();
    expect(JSON.stringify([mongoose.get('strictQuery'), mongoose.get('autoIndex'), mongoose.modelNames()])).to.equal(
      settings,
    );
    expect(connection.readyState).to.equal(1);
    expect((await HostWebhook.find().lean()).map((found) => found.mine)).to.deep.equal(['yes']);
    const collections = (await connection.listCollections()).map(({ name }) => name);
    expect(collections.filter((name) => !name.startsWith('gateway_'))).to.deep.equal(['webhooks']);
  });

  it('shares a process with another gateway, each with its own accounts', async () => {
    const options = { mongo: connection, ...loopbackOptions };
    const one = await createModelGateway({ ...options, secretKeys: [newSecretKey()], collectionPrefix: 'one_' });
    const two = await createModelGateway({ ...options, secretKeys: [newSecretKey()], collectionPrefix: 'two_' });
    const host = await listen(express().use('/one', one.router).use('/two', two.router));
    const { key } = await one.keys.create({ userId: 'usr_1' });
    const status = async (path: string) =>
      (await fetch(host.url + path, { headers: { authorization: `Bearer ${key}` } })).status;
    expect([await status('/one/v1/webhooks'), await status('/two/v1/webhooks')]).to.deep.equal([200, 401]);
    await host.close();
    await Promise.all([one.close(), two.close()]);
  });
});
