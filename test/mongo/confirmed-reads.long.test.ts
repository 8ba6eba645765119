import { expect } from 'chai';
import type { Connection, mongo } from 'mongoose';
import {
  createReadConfirmed,
  findAllConfirmed,
  findConfirmed,
  findOneConfirmed,
} from '../../src/mongo/confirmed-reads.ts';
import { isUnavailable } from '../../src/mongo/unavailable.ts';
import { type Cluster, startCluster } from '../faults/cluster/cluster.ts';
import { watchedDatabase } from '../support/commands.ts';
import { makeStale } from '../support/database/stale-primary.ts';
import { freshDatabase } from '../support/mongo.ts';

interface Thing {
  _id: string;
  owner: string;
}

const things = (connection: Connection) => connection.getClient().db('absence').collection<Thing>('things');
const thing = (id: string): Thing => ({ _id: id, owner: 'ada' });

describe('A document that an ordinary read does not find', function () {
  this.timeout(120_000);
  let cluster: Cluster;

  before(async () => {
    cluster = await startCluster();
    await things(cluster.connection).insertOne(thing('old'), { writeConcern: { w: 3 } });
  });
  after(() => cluster?.stop());

  it('is confirmed to be absent, alone and among many', async () => {
    const all = things(cluster.connection);
    expect(await findOneConfirmed(all, { _id: 'none' })).to.equal(null);
    expect(await findConfirmed(all, { owner: 'bob' })).to.deep.equal([]);
    const many = await findAllConfirmed(all, ['old', 'none', 'old'], { projection: { owner: 1 } });
    expect([...many]).to.deep.equal([['old', thing('old')]]);
  });

  it('is not reported absent by a replaced primary, and is found by the new one', async () => {
    const stale = await makeStale(cluster);
    try {
      const current = things(cluster.connection);
      await current.insertOne(thing('new'), { writeConcern: { w: 'majority' } });
      const outdated = things(stale.connection);
      expect(await outdated.findOne({ _id: 'new' }), 'a usual read of the stale primary').to.equal(null);
      expect(await outdated.findOne({ _id: 'old' }), 'a usual read of the stale primary').to.deep.equal(thing('old'));

      const asks = [
        () => findOneConfirmed(outdated, { _id: 'new' }),
        () => findConfirmed(outdated, { owner: 'ada' }),
        () => findAllConfirmed(outdated, ['old', 'new']),
      ];
      const started = performance.now();
      const errors = await Promise.all(asks.map((ask) => ask().catch((reason: unknown) => reason)));
      expect(performance.now() - started).to.be.below(4_000);
      expect(errors.map(isUnavailable), errors.map(String).join()).to.deep.equal([true, true, true]);

      // the driver had not heard of the new one yet when it read first
      const findOne: typeof current.findOne = outdated.findOne.bind(outdated);
      const late = Object.assign(things(cluster.connection), { findOne });
      expect(await findOneConfirmed(late, { _id: 'new' })).to.deep.equal(thing('new'));
      expect([...(await findAllConfirmed(current, ['old', 'new'])).keys()]).to.have.members(['old', 'new']);
    } finally {
      await stale.end();
    }
  });

  it('is not reported absent by a primary without its majority', async () => {
    const { index } = await cluster.primary();
    const others = cluster.nodes.filter((_, i) => i !== index);
    for (const node of others) process.kill(node.pid, 'SIGSTOP');
    try {
      const started = performance.now();
      const error = await findOneConfirmed(things(cluster.connection), { _id: 'none' }).catch((reason) => reason);
      expect(isUnavailable(error), String(error)).to.equal(true);
      expect(performance.now() - started).to.be.below(4_000);
    } finally {
      for (const node of others) process.kill(node.pid, 'SIGCONT');
    }
  });

  it('is not reported absent when the server cannot confirm that the read is linearizable', async () => {
    const { connection, drop } = await freshDatabase();
    const admin = connection.getClient().db('admin');
    const failRead = (mode: object | 'off', data = {}) =>
      admin.command({ configureFailPoint: 'failCommand', mode, ...(mode !== 'off' && { data }) });
    try {
      const all = connection.getClient().db(connection.name).collection<Thing>('things');
      // LinearizableReadConcernError, which the server answers where the confirming write times out
      await failRead({ skip: 1 }, { failCommands: ['find'], errorCode: 187, namespace: all.namespace });
      const error = await findOneConfirmed(all, { _id: 'none' }).catch((reason) => reason);
      expect(isUnavailable(error), String(error)).to.equal(true);
    } finally {
      await failRead('off');
      await drop();
    }
  });

  it('is reported absent by a replica set with a single member', async () => {
    const { connection, drop } = await freshDatabase();
    try {
      const all = connection.getClient().db(connection.name).collection<Thing>('things');
      expect(await findOneConfirmed(all, { _id: 'none' })).to.equal(null);
    } finally {
      await drop();
    }
  });
});

describe('a confirmed read', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let things: mongo.Collection<{ _id: string }>;

  before(async () => {
    database = await watchedDatabase();
    things = database.connection.getClient().db(database.connection.name).collection<{ _id: string }>('things');
    await things.insertOne({ _id: 'a' }, { writeConcern: { w: 'majority' } });
  });
  beforeEach(() => database.forget());
  after(() => database.drop());

  const read = (id: string) => () => things.findOne({ _id: id });
  const levels = () =>
    database.commandsTo('things').map(({ command }) => (command.readConcern as { level?: string } | undefined)?.level);

  it('costs no second read when the document is found', async () => {
    expect(await createReadConfirmed(things)('a', read('a'))).to.deep.equal({ _id: 'a' });
    expect(levels()).to.deep.equal([undefined]);
  });

  it('returns null when the database confirms that there is nothing', async () => {
    expect(await createReadConfirmed(things)('none', read('none'))).to.equal(null);
    expect(levels()).to.deep.equal([undefined, 'linearizable']);
  });

  it('reads again when the document exists after all', async () => {
    const found = [null, { _id: 'a' }];
    expect(await createReadConfirmed(things)('a', async () => found.shift() ?? null)).to.deep.equal({ _id: 'a' });
    expect(found).to.deep.equal([]);
  });

  it('shares one confirming read with all others that find nothing at the same time', async () => {
    const readConfirmed = createReadConfirmed(things);
    const ids = Array.from({ length: 5_000 }, (_, i) => `none ${i}`);
    const found = await Promise.all(ids.map((id) => readConfirmed(id, async () => null)));
    expect(new Set(found)).to.deep.equal(new Set([null]));
    expect(levels()).to.deep.equal(['linearizable']);
  });
});
