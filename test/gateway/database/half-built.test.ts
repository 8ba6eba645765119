import { expect } from 'chai';
import { createModelGateway } from '../../../src/index.ts';
import { loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';

describe('A gateway that cannot be created', () => {
  it("leaves no listeners behind on the host's connection", async () => {
    const { connection, drop } = await freshDatabase();
    const options = { ...loopbackOptions, mongo: connection };
    const client = connection.getClient();
    const listeners = () => client.eventNames().map((name) => [name, client.listenerCount(name as 'error')]);
    const before = listeners();

    const first = await createModelGateway({ ...options, secretKeys: [newSecretKey('k1')] });
    const webhook = { url: 'http://127.0.0.1:9/', events: ['credits.low'], secret: 'd8f3Kq9vLx2Zt7Wb' };
    await first.webhooks.create('usr_1', webhook);
    await first.close();
    expect(listeners()).to.deep.equal(before);

    const refused = await createModelGateway({ ...options, secretKeys: [newSecretKey('k2')] }).catch((error) => error);
    expect(refused.code).to.equal('invalid_options');
    expect(listeners()).to.deep.equal(before);
    await drop();
  });
});
