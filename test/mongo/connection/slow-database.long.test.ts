import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createDatabaseAccess } from '../../../src/mongo/connection/availability.ts';
import { connectionTimes } from '../../../src/mongo/connection/connection.ts';
import { isUnavailable } from '../../../src/mongo/unavailable.ts';
import { type BreakableDatabase, startBreakableDatabase } from '../../support/database/breakable-database.ts';
import { loopbackOptions } from '../../support/gateway.ts';

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

  it('fails commands that were being written when their connections closed, and then has free connections again', async () => {
    const access = createDatabaseAccess(connection, loopbackOptions.logger);
    const large = 'x'.repeat(15_000_000);
    const insert = () => connection.collection('large').insertOne({ large });
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
    access.close();
  });
});
