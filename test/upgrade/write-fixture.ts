/**
 * Writes test/upgrade/fixtures/<version>.json: the database of a gateway of this version, with a document of each collection and of
 * each form. Run it when a version is released: `npm run fixture:write`. Later versions are tested with every such file.
 */
import { writeFile } from 'node:fs/promises';
import mongoose from 'mongoose';
import { startEmbeddedMongo } from '../../src/cli/mongo/embedded-mongo.ts';
import { createModelGateway, scopes } from '../../src/index.ts';
import { startReceiver } from '../deliveries/receiver.ts';
import { createGateway, loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';
import { until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';
import { packageVersion } from '../support/version.ts';
import { dump, fixtureFixed, fixtureOptions, prefix, receiverInFixture } from './fixture.ts';

const webhookSecret = 'the secret of a fixture';
const [secretKey, userId] = [newSecretKey(), 'usr_1'];
const usage = { prompt_tokens: 6, completion_tokens: 1, total_tokens: 7 };

const mongo = await startEmbeddedMongo({ temporary: true });
const connection = await mongoose.createConnection(mongo.uri).asPromise();
const receiver = await startReceiver(200);
const upstream = await ScriptedUpstream.start();
const options = {
  ...loopbackOptions,
  ...fixtureOptions,
  mongo: connection,
  secretKeys: [secretKey],
  upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
};
const gateway = await createGateway({ ...options, fixed: fixtureFixed });
const server = await listen((req, res) => gateway.router(req, res));
await gateway.start();

// keys
const { key: apiKey } = await gateway.keys.create({ userId, name: 'first', scopes });
const budgets = [{ period: 'day', tokens: 9 }] as const;
await gateway.keys.create({ userId, name: 'limited', models: ['demo'], budgets });
await gateway.keys.create({ userId, name: 'ends', expiresAt: new Date(Date.now() + 86_400_000) });
const { id: revoked } = await gateway.keys.create({ userId, name: 'revoked' });
await gateway.keys.revoke(revoked, userId);
await gateway.budgets?.set(userId, [{ period: 'month', tokens: 1_000_000 }]);

async function call(method: string, path: string, body: object): Promise<void> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const response = await fetch(`${server.url}/v1${path}`, { method, headers, body: JSON.stringify(body) });
  console.log(response.status, method, path, await response.text());
}

// webhooks: plain, with every optional field, one whose secret is replaced, inactive, gone
const create = (events: string[], more = {}) =>
  gateway.webhooks.create(userId, { url: `${receiver.url}`, events, secret: webhookSecret, ...more });
const plain = await create(['credits.low', 'order.shipped']);
await create(['payment.completed'], {
  description: 'all of it',
  metadata: { team: 'one' },
  headers: { 'x-own': 'a header' },
  rateLimit: 50,
  filters: { 'data.currency': ['usd'] },
});
const rotated = await create(['payment.failed']);
await gateway.webhooks.rotateSecret(userId, rotated.id, { secret: webhookSecret, overlapSeconds: 86_400 });
const inactive = await create(['payment.completed']);
await gateway.webhooks.update(userId, inactive.id, { active: false });
const gone = await create(['credits.depleted']);

// events: delivered, to be tried again, failed and recovered, canceled, skipped, of nobody's interest, a test
const low = { user_id: userId, credits_remaining: 5, threshold: 10 };
await gateway.payments.completed({ paymentId: 'pay_1', userId, amount: 20, currency: 'usd', creditsAdded: 20 });
await gateway.publish({ type: 'order.shipped', userId, data: { order: 1 } });
await receiver.count(2);
receiver.answers(410);
await gateway.publish({ type: 'credits.depleted', userId, data: { user_id: userId, credits_remaining: 0 } });
await until(async () => !(await gateway.webhooks.get(userId, gone.id)).active);
receiver.answers(500);
await gateway.publish({ type: 'credits.low', userId, data: low });
await receiver.count(4);
await gateway.publish({ type: 'order.shipped', userId: 'usr_nobody', data: { order: 4 } });
await call('POST', `/webhooks/${plain.id}/test`, { type: 'credits.low' });
await call('POST', `/webhooks/${plain.id}/recover`, { since: new Date(Date.now() - 3_600_000).toISOString() });

// model calls: counted, refused, kept by the upstream, made in the background
upstream.script = json(200, { id: 'chatcmpl-1', object: 'chat.completion', choices: [{}], usage });
const chat = { model: 'demo', messages: [{ role: 'user', content: 'Hi' }], store: true, metadata: { a: 'b' } };
await call('POST', '/chat/completions', chat);
const response = { id: 'resp_1', object: 'response', status: 'in_progress', background: true, output: [] };
upstream.script = json(200, response);
await call('POST', '/responses', { model: 'demo', input: 'Hi', background: true });
for (let i = 0; i < 3; i += 1) await call('POST', '/chat/completions', chat);
await gateway.credits?.topUp({ userId, credits: 50, reference: 'order_1' });

const count = (name: string) => connection.collection(prefix + name).countDocuments();
const filled = ['usage_counters', 'usage_periods', 'credit_ledger', 'tallies', 'health', 'rates', 'exceeded', 'jobs'];
for (const name of filled) await until(async () => (await count(name)) > 0, 20_000, name);
// a process removes its documents when it ends
const [owners, processes] = [
  connection.collection(`${prefix}transaction_owners`),
  connection.collection(`${prefix}processes`),
];
let openOwners: object[] = [];
const processRecord = { ...(await processes.findOne({})), hostname: 'one.example', pid: 1 };
await gateway.transaction(async (session) => {
  await gateway.publish({ type: 'order.shipped', userId, data: { order: 2 } }, { session });
  await until(async () => (await count('transaction_owners')) > 0, 20_000, 'transaction_owners');
  openOwners = await owners.find().toArray();
});
await gateway.close();
await owners.insertMany(openOwners);
await processes.insertOne(processRecord);
// an event that nobody has fanned out
const idle = await createModelGateway(options);
await idle.publish({ type: 'order.shipped', userId, data: { order: 3 } });
await idle.close();

const file = new URL(`fixtures/${packageVersion}.json`, import.meta.url);
const text = await dump(connection, { secretKey, apiKey, webhookSecret });
await writeFile(file, text.replaceAll(new URL(receiver.url).origin, receiverInFixture));
await server.close();
await receiver.stop();
await upstream.close();
await connection.close();
await mongo.stop();
