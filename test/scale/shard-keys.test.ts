import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createModels } from '../../src/gateway/collections.ts';
import { newId } from '../../src/ids.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';
import { type Query, queriesOf, routeOf, shapeOf } from './routing.ts';
import { broadcasts, shardedCollections, unshardedCollections } from './shard-keys.ts';

const prefix = 'gateway_';
const low = {
  type: 'credits.low',
  userId: 'usr_1',
  data: { user_id: 'usr_1', credits_remaining: 5, threshold: 10 },
} as const;
const answer = json(200, {
  choices: [],
  usage: { prompt_tokens: 3, completion_tokens: 7, total_tokens: 10 },
});

describe('Shard keys', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let connection: Connection;
  let live: LiveGateway;
  let receiver: TestReceiver;
  let upstream: ScriptedUpstream;
  const queries: Query[] = [];

  before(async () => {
    database = await freshDatabase();
    connection = await mongoose.createConnection(database.uri, { monitorCommands: true }).asPromise();
    upstream = await ScriptedUpstream.start();
    upstream.script = answer;
    receiver = await startReceiver(200, 500, 200);
    live = await startGateway({
      mongo: connection,
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      retryDelays: [100],
      credits: { prices: { '*': { output: 1 } }, initialBalance: 100 },
      quotas: { perUser: { unit: 'tokens', monthly: 1_000_000 } },
    });
    connection.getClient().on('commandStarted', ({ command }) => {
      for (const query of queriesOf(command)) {
        queries.push({ ...query, collection: query.collection.replace(prefix, '') });
      }
    });
    await use();
  });
  after(async () => {
    await live.close();
    await connection.close();
    await receiver.stop();
    await upstream.close();
    await database.drop();
  });

  /** Everything that a gateway does often. */
  async function use(): Promise<void> {
    const { call, gateway } = live;
    const webhook = (await call('POST', '/v1/webhooks', { url: receiver.url, events: ['credits.low'] })).body;
    const first = await gateway.publish(low, { idempotencyKey: 'one' });
    await gateway.publish(low, { idempotencyKey: 'one' });
    await receiver.count(1);
    // fails, and comes again
    await gateway.publish(low);
    await receiver.count(3);
    await gateway.transaction((session) => gateway.publish(low, { session }));
    await receiver.count(4);
    const { data } = (await call('GET', `/v1/deliveries?event_id=${first.id}`)).body;
    await until(async () => (await call('GET', `/v1/deliveries/${data[0].id}`)).body.state === 'delivered');
    await call('GET', `/v1/deliveries?webhook_id=${webhook.id}`);
    await call('GET', '/v1/deliveries');
    await call('GET', '/v1/events');
    await call('GET', `/v1/events/${first.id}`);
    await call('POST', `/v1/deliveries/${data[0].id}/resend`);
    await call('GET', `/v1/webhooks/${webhook.id}`);
    await gateway.payments.completed({
      userId: 'usr_1',
      paymentId: 'pay_1',
      amount: 1,
      currency: 'usd',
      creditsAdded: 10,
    });
    await gateway.credits?.topUp({ userId: 'usr_1', credits: 1, reference: 'r' });
    await call('POST', '/v1/chat/completions', { model: 'm', messages: [{ role: 'user', content: 'Hi' }] });
    await until(async () => (await call('GET', '/v1/usage')).body.data?.length > 0);
    await call('GET', '/v1/admin/accounts');
    await call('GET', '/v1/admin/accounts?prefix=usr_');
    await call('GET', '/v1/admin/accounts/usr_1');
    await call('GET', '/v1/admin/webhooks');
    await call('GET', `/v1/admin/webhooks?after=${webhook.id}`);
    await call('GET', '/v1/admin/refusals');
    for (const id of ['usr_1', first.id, data[0].id, webhook.id, newId('req', Date.now()), newId('use', Date.now())]) {
      await call('GET', `/v1/admin/search?id=${id}`);
    }
    for (const name of ['processes', 'upstreams', 'backlog']) await call('GET', `/v1/admin/${name}`);
    // statistics are written at intervals
    await until(() => queries.some(({ collection }) => collection === 'tallies'));
  }

  const keyOf = new Map(shardedCollections.map(({ name, key }) => [name, key]));
  const ofSharded = () => queries.filter(({ collection }) => keyOf.has(collection));
  const isBroadcast = (query: Query) => routeOf(query.filter, keyOf.get(query.collection) ?? {}) === 'all';

  it('are chosen for every collection, or a reason is given for having none', () => {
    const names = Object.values(createModels(connection, prefix)).map(({ collection }) =>
      collection.collectionName.replace(prefix, ''),
    );
    const decided = [...keyOf.keys(), ...Object.keys(unshardedCollections)];
    expect(decided).to.have.members([...names, 'jobs']);
  });

  it('are in every frequent query, except for those that docs/scale.md lists', () => {
    const seen = new Set(ofSharded().map(({ collection }) => collection));
    expect([...seen]).to.include.members([
      'events',
      'deliveries',
      'usage',
      'usage_counters',
      'usage_periods',
      'credit_ledger',
      'credit_accounts',
      'payments',
      'tallies',
      'health',
    ]);
    const shapes = new Set(ofSharded().filter(isBroadcast).map(shapeOf));
    expect([...shapes].filter((shape) => !(shape in broadcasts))).to.deep.equal([]);
  });

  it('are in every query that changes one document, as MongoDB requires', () => {
    const single = new Set(
      ofSharded()
        .filter((query) => query.isSingle && isBroadcast(query))
        .map(shapeOf),
    );
    expect([...single]).to.deep.equal([]);
  });

  it('are prefixes of every unique index, by field', () => {
    for (const model of Object.values(createModels(connection, prefix))) {
      const key = keyOf.get(model.collection.collectionName.replace(prefix, ''));
      for (const [fields, { unique }] of key ? model.schema.indexes() : []) {
        if (!unique) continue;
        const prefixOf = Object.keys(fields).slice(0, Object.keys(key ?? {}).length);
        expect(prefixOf, `${model.collection.collectionName} ${JSON.stringify(fields)}`).to.deep.equal(
          Object.keys(key ?? {}),
        );
      }
    }
  });
});
