import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { newId } from '../support/ids.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';
import { isOneValue, keyBounds } from './key-bounds.ts';
import { type Query, queriesOf, shapeOf } from './queries.ts';
import { broadcasts, shardedCollections, unshardedCollections } from './shard-keys.ts';

const prefix = 'gateway_';
const low = {
  type: 'credits.low',
  userId: 'usr_1',
  data: { user_id: 'usr_1', credits_remaining: 5, threshold: 10 },
} as const;
const answer = json(200, {
  choices: [{}],
  usage: { prompt_tokens: 3, completion_tokens: 7, total_tokens: 10 },
});

describe('Shard keys', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let connection: Connection;
  let live: LiveGateway;
  let receiver: TestReceiver;
  let upstream: ScriptedUpstream;
  /** As the driver sends them, all the time. */
  const queries: Query[] = [];
  /** Of what was seen in `use`, those of sharded collections. */
  let recorded: readonly Query[] = [];

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
    recorded = queries.filter(({ collection }) => keyOf.has(collection));
    for (const { name, key } of shardedCollections) await connection.collection(prefix + name).createIndex(key);
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

  /** What MongoDB's own planner finds of the shard key in a query. */
  const boundsOf = ({ collection, filter }: Query) =>
    keyBounds(connection.collection(prefix + collection), filter, keyOf.get(collection) ?? {});

  /** The shapes of queries in which MongoDB finds no bounds of the shard key. */
  async function shapesWithoutKey(of: readonly Query[]): Promise<string[]> {
    const shapes = new Set<string>();
    for (const query of of) if ((await boundsOf(query)) === null) shapes.add(shapeOf(query));
    return [...shapes];
  }
  const unlisted = async (of: readonly Query[]) =>
    (await shapesWithoutKey(of)).filter((shape) => !(shape in broadcasts));

  /** Those that grow with use: one document says the version of the schema. */
  const collectionNames = async () =>
    (await connection.listCollections())
      .map(({ name }) => name.replace(prefix, ''))
      .filter((name) => name !== 'schema');

  it('are chosen for every collection, or a reason is given for having none', async () => {
    const names = await collectionNames();
    const decided = [...keyOf.keys(), ...Object.keys(unshardedCollections)];
    expect(decided).to.have.members(names);
  });

  it('are in every frequent query, as `explain` finds, except for those that docs/scale.md lists', async () => {
    const seen = new Set(recorded.map(({ collection }) => collection));
    expect([...seen]).to.have.members([...keyOf.keys()]);
    expect(await unlisted(recorded)).to.deep.equal([]);
  });

  it('are in no query that docs/scale.md lists as one without', async () => {
    const listed = recorded.filter((query) => shapeOf(query) in broadcasts);
    expect(listed).to.not.deep.equal([]);
    expect(await shapesWithoutKey(listed)).to.have.members([...new Set(listed.map(shapeOf))]);
  });

  it('have one value in every query that changes one document, as MongoDB requires', async () => {
    const single = recorded.filter(({ isSingle }) => isSingle);
    expect(single).to.not.deep.equal([]);
    for (const query of single) expect(isOneValue(await boundsOf(query)), shapeOf(query)).to.equal(true);
  });

  it('are missed where a query does not have them', async () => {
    const events = connection.collection(`${prefix}events`);
    const begin = queries.length;
    await events.findOne({ idempotencyKey: 'one' });
    await events.updateOne(
      { $or: [{ userId: 'usr_1' }, { idempotencyKey: 'one' }] },
      { $set: { type: 'credits.low' } },
    );
    await events.aggregate([{ $match: { userId: { $gt: 'usr_' } } }]).toArray();
    const shapes = ['find events: idempotencyKey', 'update events: $or', 'aggregate events: userId'];
    const planted = queries.slice(begin).filter((query) => shapes.includes(shapeOf(query)));
    expect(await unlisted([...recorded, ...planted])).to.deep.equal(shapes);
    const update = planted.find(({ isSingle }) => isSingle) as Query;
    expect(isOneValue(await boundsOf(update))).to.equal(false);
    expect(isOneValue(await boundsOf({ ...update, filter: { userId: { $in: ['usr_1', 'usr_2'] } } }))).to.equal(false);
    expect(isOneValue(await boundsOf({ ...update, filter: { userId: 'usr_1' } }))).to.equal(true);
  });

  it('are prefixes of every unique index, by field', async () => {
    for (const [name, shardKey] of keyOf) {
      const fields = Object.keys(shardKey);
      for (const { key, unique } of await connection.collection(prefix + name).indexes()) {
        if (!unique) continue;
        expect(Object.keys(key).slice(0, fields.length), `${name} ${JSON.stringify(key)}`).to.deep.equal(fields);
      }
    }
  });
});
