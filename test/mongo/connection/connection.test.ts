import { expect } from 'chai';
import mongoose, { type Connection, Mongoose } from 'mongoose';
import { Mongoose as Mongoose8 } from 'mongoose8';
import { openDatabase } from '../../../src/mongo/connection/connection.ts';
import { createGateway } from '../../support/gateway.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshUri } from '../../support/mongo.ts';

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
