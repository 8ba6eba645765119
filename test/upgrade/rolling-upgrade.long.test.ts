import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { expect } from 'chai';
import { GatewayError, type ModelGateway, type ModelGatewayOptions } from '../../src/index.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { createGateway, loopbackOptions } from '../support/gateway.ts';
import { newId } from '../support/ids.ts';
import { silentLogger } from '../support/logger.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { packageVersion } from '../support/version.ts';
import { type Fixture, fixtureFixed, fixtureOptions, prefix, restore } from './fixture.ts';
import { type Build, buildNewer, newField, newIndex, type Release } from './newer-version.ts';

type Stored = Readonly<Record<string, unknown>> & { readonly _id: string };

const userId = 'usr_1';
const type = 'order.shipped';
/** Longer than the wait of the delivery that is to be tried again. */
const twoHours = 7_200_000;
/** A gateway of this version. */
const createOlder = (options: ModelGatewayOptions) => createGateway({ ...options, fixed: fixtureFixed });
/** A field of every document of the fixture that this version does not know. */
const unknown = { kept: ['as', 'it', 'is'] };

const compatible: Release = { packageVersion: '9.0.0', schemaVersion: 2, compatibleFrom: 1 };
const incompatible: Release = { packageVersion: '10.0.0', schemaVersion: 3, compatibleFrom: 2 };

describe('Two versions at once, on a database that this version wrote', function () {
  this.timeout(120_000);
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let receiver: TestReceiver;
  let fixture: Fixture;
  /** Documents that have the unknown field, as they were when they got it, by collection and id. */
  const marked = new Map<string, Map<string, Stored>>();
  const builds: Build[] = [];
  const open = new Set<ModelGateway>();
  const told: string[] = [];
  let older: ModelGateway;
  let newer: ModelGateway;

  before(async () => {
    database = await freshDatabase();
    receiver = await startReceiver(200);
    const text = readFileSync(new URL(`fixtures/${packageVersion}.json`, import.meta.url), 'utf8');
    fixture = await restore(database.connection, text, new URL(receiver.url).origin, twoHours);
    for (const name of Object.keys(fixture.collections)) {
      if (name === 'schema') continue;
      await mark(name);
    }
  });
  after(async () => {
    await Promise.all([...open].map((gateway) => gateway.close()));
    await receiver?.stop();
    await Promise.all(builds.map((build) => build.remove()));
    await database?.drop();
  });

  const collection = (name: string) => database.connection.collection<Stored>(prefix + name);
  const record = () => collection('schema').findOne({});
  async function byId(name: string): Promise<Map<string, Stored>> {
    const documents = await collection(name).find().toArray();
    return new Map(documents.map((document) => [String(document._id), document]));
  }

  /** Gives documents the field that this version does not know, as if a newer one had written them. */
  async function mark(name: string): Promise<void> {
    await collection(name).updateMany({ [newField]: { $exists: false } }, { $set: { [newField]: unknown } });
    marked.set(name, await byId(name));
  }

  /** Whether a document that was marked is another by now. */
  async function hasChanged(name: string): Promise<boolean> {
    const before = marked.get(name);
    const documents = await byId(name);
    return [...documents].some(([id, document]) => before?.has(id) && !isDeepStrictEqual(document, before.get(id)));
  }

  /** A gateway with a connection of its own, as a process has. */
  async function start(indexes: 'build' | 'check', create = createOlder): Promise<ModelGateway> {
    const gateway = await create({
      ...loopbackOptions,
      ...fixtureOptions,
      retryDelays: [200, 200, 200],
      mongo: database.uri,
      secretKeys: [fixture.secretKey],
      indexes,
      logger: { ...silentLogger, info: (line) => void told.push(line) },
    });
    open.add(gateway);
    return gateway;
  }
  async function startNewer(release: Release): Promise<ModelGateway> {
    const build = await buildNewer(release);
    builds.push(build);
    return start('build', build.createModelGateway);
  }
  async function restartOlder(indexes: 'build' | 'check'): Promise<void> {
    open.delete(older);
    await older.close();
    older = await start(indexes);
  }

  const publish = async (by: ModelGateway, order: number) => (await by.publish({ type, userId, data: { order } })).id;
  const sent = (eventId: string) => receiver.received.filter(({ headers }) => headers['webhook-id'] === eventId).length;
  const deliveriesOf = (eventId: string) => collection('deliveries').find({ eventId }).toArray();
  const delivered = (eventId: string) =>
    until(async () => {
      const deliveries = await deliveriesOf(eventId);
      return deliveries.length > 0 && deliveries.every(({ state }) => state === 'delivered');
    });
  const newFieldsOf = async (name: string, filter: object) =>
    (await collection(name).find(filter).toArray()).map((document) => document[newField]);

  it('each deliver what the other publishes', async () => {
    older = await start('build');
    expect(await record()).to.include({ version: 1, compatibleFrom: 1, packageVersion });
    await older.start();
    newer = await startNewer(compatible);
    expect(await record()).to.include({ version: 2, compatibleFrom: 1, packageVersion: '9.0.0' });
    expect((await collection('events').indexes()).map(({ name }) => name)).to.include(newIndex);

    // only the older one makes attempts
    const ofNewer = await publish(newer, 10);
    await delivered(ofNewer);
    expect(sent(ofNewer)).to.equal(1);
    await until(async () => (await collection('events').findOne({ _id: ofNewer }))?.fanOut === 'done');
    expect(await newFieldsOf('events', { _id: ofNewer })).to.deep.equal([true]);

    // only the newer one does; the older one has been started again, as in a rollback
    await restartOlder('check');
    expect(told).to.include('a newer version has prepared the database; this one may run beside it');
    expect((await older.health()).checks).to.include({ schema: 'ok', indexes: 'ok' });
    await newer.start();
    const ofOlder = await publish(older, 11);
    await delivered(ofOlder);
    expect(sent(ofOlder)).to.equal(1);
    expect(await newFieldsOf('deliveries', { eventId: ofOlder })).to.deep.equal([true]);
  });

  it('share retries: all that both publish is delivered', async () => {
    await older.start();
    receiver.answers(...receiver.received.map(() => 200), ...Array.from({ length: 20 }, () => 500), 200);
    const publishing = Array.from({ length: 20 }, (_, i) => publish(i % 2 ? older : newer, 20 + i));
    const eventIds = await Promise.all(publishing);
    for (const eventId of eventIds) {
      await delivered(eventId);
      expect((await deliveriesOf(eventId)).map(({ attempt }) => attempt)).to.deep.equal([sent(eventId)]);
    }
    expect(receiver.received.length).to.be.at.least(40);
  });

  it('leave fields alone that the older one does not know, whatever it changes', async () => {
    open.delete(newer);
    await newer.close();
    // sums are by day and month, which the fixture's may not be any more
    const sums = ['usage_counters', 'usage_periods'];
    await until(() => hasChanged('usage'), 20_000, 'calls of the fixture are counted');
    for (const name of sums) await mark(name);
    const call = { ...(await collection('usage').findOne({ counted: true })), counted: false };
    await collection('usage').insertOne({
      ...call,
      _id: newId('use', Date.now()),
      requestId: newId('req', Date.now()),
    });

    const [webhook, key] = [fixture.collections.webhooks?.[0]?._id, fixture.collections.keys?.[1]?._id];
    await older.webhooks.update(userId, String(webhook), { description: 'changed' });
    await older.keys.revoke(String(key), userId);
    await older.budgets?.set(userId, [{ period: 'month', tokens: 2_000_000 }]);
    await older.credits?.topUp({ userId, credits: 1, reference: 'order_2' });
    const ofPublishing = ['events', 'deliveries', 'health'];
    const ofUsage = ['usage', 'usage_key_totals', 'stored', ...sums];
    const ofCalls = ['webhooks', 'keys', 'account_budgets', 'credit_accounts'];
    for (const name of [...ofPublishing, ...ofUsage, ...ofCalls]) await until(() => hasChanged(name), 20_000, name);
    for (const [name, before] of marked) {
      for (const [id, document] of await byId(name)) {
        if (before.has(id)) expect(document[newField], `${name} ${id}`).to.deep.equal(unknown);
      }
    }
  });

  it('are one too many once the newer one says so: the older one finishes, and does not start again', async () => {
    await startNewer(incompatible);
    expect(await record()).to.include({ version: 3, compatibleFrom: 2, packageVersion: '10.0.0' });
    await delivered(await publish(older, 50));
    const refused = await restartOlder('build').catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(GatewayError).and.include({ code: 'invalid_options', param: 'mongo' });
    expect((refused as GatewayError).message).to.equal(
      'mongo: express-model-gateway 10.0.0 has prepared this database (schema version 3), and versions with a schema version below 2 ' +
        `must not use it; this is ${packageVersion} with schema version 1: run 10.0.0 or a newer one`,
    );
    expect(await record()).to.include({ version: 3, compatibleFrom: 2, packageVersion: '10.0.0' });
  });
});
