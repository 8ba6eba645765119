import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { withCommandTimeout } from '../../../src/mongo/collection.ts';
import { isUnavailable } from '../../../src/mongo/unavailable.ts';
import { type BreakableDatabase, startBreakableDatabase } from '../../support/database/breakable-database.ts';
import { connectionTimes } from '../../support/mongo.ts';

describe('A connection of the gateway’s own', function () {
  this.timeout(60_000);
  let database: BreakableDatabase;
  let connection: Connection;
  let beside: Connection;

  before(async () => {
    database = await startBreakableDatabase();
    beside = await mongoose.createConnection(database.directUri).asPromise();
  });
  beforeEach(async () => {
    connection = await mongoose
      .createConnection(database.directUri, { ...connectionTimes, maxPoolSize: 3, monitorCommands: true })
      .asPromise();
    await connection.collection('things').insertOne({ a: 1 });
  });
  afterEach(() => connection.close());
  after(async () => {
    await beside?.close();
    await database?.stop();
  });

  async function findSlowly(ms: number) {
    const client = connection.getClient();
    let finds = 0;
    let clears = 0;
    client.on('commandStarted', ({ commandName }) => {
      if (commandName === 'find') finds += 1;
    });
    client.on('connectionPoolCleared', () => {
      clears += 1;
    });
    const command = { configureFailPoint: 'failCommand', data: { failCommands: ['find'], blockConnection: true } };
    const slow = (mode: string) =>
      beside
        .getClient()
        .db('admin')
        .command({ ...command, mode, data: { ...command.data, blockTimeMS: ms } });
    await slow('alwaysOn');
    try {
      const outcome = await connection
        .collection('things')
        .findOne({})
        .then(
          () => 'found',
          (error) => error,
        );
      return { outcome, finds, clears };
    } finally {
      await slow('off');
    }
  }

  it('waits for an answer that takes one second less than socketTimeoutMS', async () => {
    expect(await findSlowly(connectionTimes.socketTimeoutMS - 1_000)).to.deep.equal({
      outcome: 'found',
      finds: 1,
      clears: 0,
    });
  });

  it('reads twice and then fails, without closing other connections, when the database is slower than that', async () => {
    const { outcome, finds, clears } = await findSlowly(connectionTimes.socketTimeoutMS + 1_000);
    expect(isUnavailable(outcome)).to.equal(true);
    expect({ finds, clears }).to.deep.equal({ finds: 2, clears: 0 });
  });

  it('fails each kind of command that was being written when its connection closed', async () => {
    const pooled = await mongoose.createConnection(database.directUri, connectionTimes).asPromise();
    const collection = withCommandTimeout(pooled.getClient().db(pooled.name).collection('large'));
    const large = 'x'.repeat(15_000_000);
    const kinds: readonly (() => Promise<unknown>)[] = [
      () => collection.insertMany([{ large }]),
      () => collection.bulkWrite([{ insertOne: { document: { large } } }]),
      () => collection.updateOne({ large }, { $set: { a: 1 } }),
      () => collection.updateMany({ large }, { $set: { a: 1 } }),
      () => collection.findOneAndUpdate({ large }, { $set: { a: 1 } }),
      () => collection.deleteOne({ large }),
      () => collection.deleteMany({ large }),
      () => collection.findOne({ large }),
      () => collection.find({ large }).toArray(),
      () => collection.aggregate([{ $match: { large } }]).toArray(),
      () => collection.countDocuments({ large }),
    ];
    await Promise.all(kinds.map(() => collection.findOne({})));
    process.kill(database.node.pid, 'SIGSTOP');
    const failed: number[] = [];
    try {
      const settled = Promise.all(
        kinds.map((run, i) => run().catch((error) => void (isUnavailable(error) && failed.push(i)))),
      );
      // measures time: what takes longer is not given up
      await Promise.race([settled, sleep(40_000)]);
    } finally {
      process.kill(database.node.pid, 'SIGCONT');
    }
    expect(failed.sort((a, b) => a - b)).to.deep.equal([...kinds.keys()]);
    await Promise.all(kinds.map(() => collection.findOne({})));
    await pooled.close();
  });

  it('fails commands that were being written when their connections closed, and then has free connections again', async () => {
    const collection = withCommandTimeout(connection.getClient().db(connection.name).collection('large'));
    const large = 'x'.repeat(15_000_000);
    const insert = () => collection.insertOne({ large });
    process.kill(database.node.pid, 'SIGSTOP');
    const failures: unknown[] = [];
    try {
      // more than the buffers of the sockets take
      const settled = Promise.all([1, 2, 3].map(() => insert().catch((error) => failures.push(error))));
      // measures time: writes that take longer are not given up
      await Promise.race([settled, sleep(25_000)]);
    } finally {
      process.kill(database.node.pid, 'SIGCONT');
    }
    expect(failures.map(isUnavailable)).to.deep.equal([true, true, true]);
    await Promise.all([1, 2, 3].map(() => connection.collection('things').findOne({})));
  });
});
