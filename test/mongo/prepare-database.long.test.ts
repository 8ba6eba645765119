import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose from 'mongoose';
import { createDeliveryModel } from '../../src/deliveries/model.ts';
import { createModelGateway, GatewayError } from '../../src/index.ts';
import { databaseOf } from '../../src/mongo/collection.ts';
import { findIndexes, indexesOfModel } from '../../src/mongo/schema/indexes.ts';
import { retryUntilAvailable } from '../../src/mongo/schema/prepare-schema.ts';
import { RecordedTerminal } from '../cli/recorded-terminal.ts';
import { type BreakableDatabase, startBreakableDatabase } from '../support/database/breakable-database.ts';
import { createGateway, loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { silentLogger } from '../support/logger.ts';
import { connectionTimes } from '../support/mongo.ts';

describe('The indexes that the start of a gateway builds', function () {
  this.timeout(60_000);
  let database: BreakableDatabase;

  before(async () => {
    database = await startBreakableDatabase();
  });
  after(() => database?.stop());

  async function failCommand(mode: object | 'off', name = 'createIndexes'): Promise<void> {
    const beside = await mongoose.createConnection(database.directUri).asPromise();
    const data = { failCommands: [name], errorCode: 10_107 };
    const command = { configureFailPoint: 'failCommand', mode, ...(mode !== 'off' && { data }) };
    await beside.getClient().db('admin').command(command);
    await beside.close();
  }

  /** The names of the indexes of a collection. */
  async function indexesOf(collection: string): Promise<string[]> {
    const beside = await mongoose.createConnection(database.uri).asPromise();
    const indexes = await beside.collection(collection).indexes();
    await beside.close();
    return indexes.map(({ name }) => String(name));
  }

  it('are built in spite of an election meanwhile', async () => {
    await failCommand({ times: 3 });
    const options = { ...loopbackOptions, secretKeys: [newSecretKey()], collectionPrefix: 'election_' };
    const gateway = await createModelGateway({ ...options, mongo: database.uri });
    await gateway.close();
    expect(await indexesOf('election_events')).to.include('unfinishedFanOut');
  });

  it('are built in spite of an election right after a connection has timed out', async () => {
    const connection = await mongoose.createConnection(database.uri).asPromise();
    let tries = 0;
    const build = async () => {
      tries += 1;
      if (tries === 1) throw new mongoose.mongo.MongoNetworkTimeoutError('connection timed out');
    };
    await failCommand({ times: 1 }, 'ping');
    try {
      await retryUntilAvailable(build, { connection, logger: loopbackOptions.logger });
      expect(tries).to.equal(2);
    } finally {
      await failCommand('off');
      await connection.close();
    }
  });

  it('are given up with an error that names the reason when there is no primary for long', async () => {
    const connection = await mongoose.createConnection(database.uri).asPromise();
    await failCommand({ times: 1_000 });
    try {
      const build = () => connection.collection('never').createIndex({ a: 1 });
      const building = retryUntilAvailable(build, { connection, logger: loopbackOptions.logger, availableWithin: 500 });
      const error = await building.then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).to.be.instanceOf(GatewayError).and.include({ code: 'invalid_options', param: 'mongo' });
      expect((error as GatewayError).message).to.include('no primary');
    } finally {
      await failCommand('off');
      await connection.close();
    }
  });

  it('are built beside an index that another version has made with other keys', async () => {
    const beside = await mongoose.createConnection(database.uri).asPromise();
    const name = 'pendingFanOut';
    const partialFilterExpression = { fanOut: 'pending' };
    await beside.collection('older_events').createIndex({ acceptedAt: 1, _id: 1 }, { name, partialFilterExpression });
    await beside.close();
    const options = { ...loopbackOptions, secretKeys: [newSecretKey()], collectionPrefix: 'older_' };
    const gateway = await createModelGateway({ ...options, mongo: database.uri });
    await gateway.close();
    expect(await indexesOf('older_events'))
      .to.include('pendingFanOut')
      .and.have.length.above(2);
  });

  it('are waited for by a gateway and by migrate, even longer than socketTimeoutMS', async () => {
    const beside = await mongoose.createConnection(database.directUri).asPromise();
    const hang = (mode: string) =>
      beside.getClient().db('admin').command({ configureFailPoint: 'hangAfterStartingIndexBuild', mode });
    const told: string[] = [];
    const logger = { ...silentLogger, info: (line: string) => void told.push(line) };
    try {
      // on an empty collection, an index is there at once
      for (const prefix of ['large_', 'moved_'])
        await beside.collection(`${prefix}deliveries`).insertOne({ state: 'pending' });
      await hang('alwaysOn');
      const starting = createGateway({
        mongo: database.uri,
        collectionPrefix: 'large_',
        logger,
      });
      starting.catch(() => {});
      const terminal = new RecordedTerminal({ env: { MONGODB_URI: database.uri, COLLECTION_PREFIX: 'moved_' } });
      const migrating = terminal.run('migrate');
      const deadline = performance.now() + 4 * connectionTimes.socketTimeoutMS;
      // looks again
      while ((told.length === 0 || !terminal.stderr) && performance.now() < deadline) await sleep(50);
      for (const prefix of ['large_', 'moved_']) {
        const needed = indexesOfModel(createDeliveryModel(beside, prefix));
        const found = await findIndexes(databaseOf(beside), [needed]);
        expect(new Set(found.map(({ state }) => state))).to.deep.equal(new Set(['building']));
      }
      await hang('off');
      const gateway = await starting;
      await gateway.close();
      const waiting = 'indexes are being built; waiting until they are there';
      expect(told).to.deep.equal([waiting]);
      expect(terminal.stderr, terminal.stdout).to.equal(`${waiting}\n`);
      expect(await migrating).to.equal(0);
      expect(terminal.stdout).to.include('Built: moved_deliveries.due\n');
      for (const prefix of ['large_', 'moved_']) {
        expect(await indexesOf(`${prefix}deliveries`)).to.include.members(['due', 'dueOfWebhook']);
      }
    } finally {
      await hang('off');
      await beside.close();
    }
  });
});
