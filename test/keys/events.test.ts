import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { startEvents, type TestEvents } from '../events/harness.ts';
import { freshDatabase } from '../support/mongo.ts';
import { keyServiceOf, type StoredKeys } from './harness.ts';

describe('the events of API keys', () => {
  let connection: Connection;
  let drop: () => Promise<void>;
  let events: TestEvents;
  let keys: StoredKeys;

  beforeEach(async () => {
    ({ connection, drop } = await freshDatabase());
    events = await startEvents(connection);
    ({ keys } = keyServiceOf(connection));
    await keys.createIndexes();
  });
  afterEach(() => drop());

  const newService = (publish: TestEvents['publish'] = events.publish) =>
    keyServiceOf(connection, { publish, transaction: events.transaction }).service;

  const published = async () =>
    (await events.stored()).map(({ type, userId, body }) => ({ type, userId, ...JSON.parse(String(body)).data }));

  it('are published when a key is created and when it is revoked, and their deliveries start at once', async () => {
    const service = newService();
    const { id } = await service.create({ userId: 'usr_1', name: 'laptop' });
    await service.revoke(id);
    const data = { userId: 'usr_1', api_key_id: id, name: 'laptop', user_id: 'usr_1' };
    expect(await published()).to.deep.equal([
      { type: 'api_key.created', ...data },
      { type: 'api_key.revoked', ...data },
    ]);
    expect(events.fannedOut).to.have.length(2);
  });

  it('are published once when many calls revoke a key at the same moment, and only one call reports success', async () => {
    const service = newService();
    const { id } = await service.create({ userId: 'usr_1' });
    const done = await Promise.all(Array.from({ length: 8 }, () => service.revoke(id)));
    expect(done.filter(Boolean)).to.have.length(1);
    expect((await published()).map(({ type }) => type)).to.deep.equal(['api_key.created', 'api_key.revoked']);
  });

  it('and the keys are written together or not at all', async () => {
    const failing = newService(async () => {
      throw new Error('no event');
    });
    const error = await failing.create({ userId: 'usr_1' }).catch((thrown) => thrown);
    expect(error.message).to.equal('no event');
    expect(await keys.countDocuments()).to.equal(0);

    const { id, key } = await newService().create({ userId: 'usr_1' });
    await failing.revoke(id).catch(() => {});
    expect(await newService().authenticate(key)).to.not.equal(null);
    expect(await published()).to.have.length(1);
  });
});
