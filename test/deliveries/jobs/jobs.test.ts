import { expect } from 'chai';
import { createJobs, type Jobs, jobIndexes } from '../../../src/deliveries/jobs.ts';
import { buildIndexes } from '../../support/database/indexes.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { eventually } from '../../support/until.ts';

const collectionPrefix = 'gateway_';
const collection = `${collectionPrefix}jobs`;

describe('Jobs', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let jobs: Jobs;

  beforeEach(async () => {
    database = await freshDatabase();
    const { connection } = database;
    jobs = createJobs({
      connection,
      owner: 'wrk_1',
      collectionPrefix,
      logger: silentLogger,
      lookAhead: 850,
      upkeepInterval: 20,
    });
    await buildIndexes(connection, jobIndexes(collectionPrefix));
    await jobs.init();
    await jobs.start(() => {});
  });
  afterEach(async () => {
    await jobs.stop();
    await database.drop();
  });

  const names = async () => {
    const indexes = await database.connection
      .collection(collection)
      .indexes()
      .catch(() => []);
    return indexes.map(({ name }) => name);
  };
  const areBack = () => eventually(names, (found) => found.includes('next'));

  it('rebuild their indexes while they run, when the collection is dropped', async () => {
    await database.connection.collection(collection).drop();
    expect(await areBack()).to.include('next');
  });

  it('rebuild their indexes even if an attempt got two jobs meanwhile', async () => {
    const kept = database.connection.collection(collection);
    const data = { deliveryId: 'dlv_1', webhookId: 'wh_1', attempt: 1 };
    const nextRunAt = new Date(Date.now() + 3_600_000);
    await kept.drop();
    await kept
      .insertMany([
        { data, nextRunAt },
        { data, nextRunAt },
      ])
      .catch(() => {});
    expect(await areBack()).to.include('next');
  });

  it('leave existing indexes alone', async () => {
    const before = await names();
    // shows that nothing changes
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await names()).to.deep.equal(before);
  });
});
