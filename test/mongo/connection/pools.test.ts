import { expect } from 'chai';
import mongoose from 'mongoose';
import { poolUsage } from '../../../src/mongo/connection/connection.ts';
import { createGateway } from '../../support/gateway.ts';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

/** What is read here of the driver (mongodb 7.8): it keeps a pool for each server. */
interface Internals {
  readonly topology: {
    readonly s: { readonly servers: ReadonlyMap<string, { readonly pool: { ensureMinPoolSize(): void } }> };
  };
}

describe("The client of a host's connection", () => {
  it('keeps its own time beside a gateway: it looks for idle connections ten times a second, and closes them', async () => {
    const connection = await mongoose.createConnection(freshUri(), { maxIdleTimeMS: 500 }).asPromise();
    const client = connection.getClient();
    const [server] = (client as unknown as Internals).topology.s.servers.values();
    if (!server) throw new Error('the driver keeps its pools elsewhere');
    const { pool } = server;
    const look = pool.ensureMinPoolSize.bind(pool);
    let looks = 0;
    pool.ensureMinPoolSize = () => {
      looks += 1;
      look();
    };
    const gateway = await createGateway({ mongo: connection });
    looks = 0;
    // where each look waits for the gateway's, so many take a minute
    await until(() => looks >= 30);
    await Promise.all([1, 2, 3].map(() => client.db('admin').command({ ping: 1 })));
    expect(poolUsage(client).idle).to.be.above(0);
    await gateway.close();
    await until(() => poolUsage(client).idle === 0);
    await connection.close();
  });

  it('has no listener of a gateway that has closed', async () => {
    const connection = await mongoose.createConnection(freshUri()).asPromise();
    const client = connection.getClient();
    const listeners = () =>
      Object.fromEntries(client.eventNames().map((name) => [name, client.listenerCount(name as 'close')]));
    const before = listeners();
    for (let i = 0; i < 3; i += 1) {
      const gateway = await createGateway({ mongo: connection });
      await gateway.start();
      await gateway.close();
    }
    expect(listeners()).to.deep.equal(before);
    await connection.close();
  });
});
