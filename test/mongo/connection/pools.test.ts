import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose from 'mongoose';
import { createDatabaseAccess } from '../../../src/mongo/connection/availability.ts';
import { poolsOf, poolUsage } from '../../../src/mongo/connection/connection.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

describe('The connections of an idle client', () => {
  it('are looked through every two seconds, not ten times a second, and closed when they were idle for too long', async () => {
    const connection = await mongoose.createConnection(freshUri(), { maxIdleTimeMS: 500 }).asPromise();
    const client = connection.getClient();
    const access = createDatabaseAccess(connection, silentLogger);
    const [pool] = [...poolsOf(client)];
    if (!pool?.ensureMinPoolSize) throw new Error('the driver has no such pool any more');
    const look = pool.ensureMinPoolSize.bind(pool);
    let looks = 0;
    pool.ensureMinPoolSize = () => {
      looks += 1;
      look();
    };
    // the first look of the gateway may come before the client has a connection
    await sleep(2_100);
    await Promise.all([1, 2, 3].map(() => client.db('admin').command({ ping: 1 })));
    expect(poolUsage(client).idle).to.be.above(0);
    looks = 0;
    await until(() => poolUsage(client).idle === 0);
    // the time that is measured
    await sleep(1_000);
    expect(looks).to.be.within(1, 4);

    access.close();
    looks = 0;
    await until(() => looks > 3);
    await connection.close();
  });
});
