import { expect } from 'chai';
import mongoose, { type Connection, Mongoose } from 'mongoose';
import { Mongoose as Mongoose8 } from 'mongoose8';
import { openDatabase, poolUsage } from '../../../src/mongo/connection/connection.ts';
import { createGateway } from '../../support/gateway.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

describe('the option mongo', () => {
  it('may be mongoose itself, and a connection that is still being opened', async () => {
    const own = new Mongoose();
    const opening = own.connect(freshUri());
    try {
      const { connection } = await openDatabase(own, silentLogger);
      expect(connection).to.equal(own.connection);
      expect(connection.readyState).to.equal(mongoose.ConnectionStates.connected);
      await openDatabase(own.connection, silentLogger);
    } finally {
      await opening;
      await own.disconnect();
    }
  });

  it('is refused when nobody opens the connection, and the error says what to do', async () => {
    for (const unopened of [mongoose.createConnection(), new Mongoose()]) {
      const error = await openDatabase(unopened, silentLogger).catch((thrown) => thrown);
      expect(error).to.include({ code: 'invalid_options', param: 'mongo' });
      expect(error.message).to.contain('is not connected; call mongoose.connect(uri) before');
    }
  });

  it('is refused when it is of another mongoose version, and the error names both versions', async () => {
    const theirs = new Mongoose8();
    await theirs.connect(freshUri());
    try {
      for (const mongo of [theirs, theirs.connection]) {
        const error = await openDatabase(mongo, silentLogger).catch((thrown) => thrown);
        expect(error).to.include({ code: 'invalid_options', param: 'mongo' });
        expect(error.message).to.match(/is of mongoose 8\.\S+, but express-model-gateway finds mongoose 9\./);
      }
    } finally {
      await theirs.disconnect();
    }
  });

  it('is refused when it is anything else, and the error says what it must be', async () => {
    for (const wrong of [{}, { db: 'x' }, 7]) {
      const error = await openDatabase(wrong as unknown as Connection, silentLogger).catch((thrown) => thrown);
      expect(error).to.include({ code: 'invalid_options', param: 'mongo' });
      expect(error.message).to.contain('must be a MongoDB URI, a mongoose connection or mongoose itself');
    }
  });

  it('is named where the host closes its connection while the gateway is being made', async () => {
    const connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    let commands = 0;
    connection.getClient().on('commandStarted', () => {
      // while its indexes are being built
      commands += 1;
      if (commands === 12) setImmediate(() => void connection.close());
    });
    expect(await createGateway({ mongo: connection }).catch((thrown) => thrown)).to.include({
      code: 'invalid_options',
      param: 'mongo',
    });
  });
});

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
