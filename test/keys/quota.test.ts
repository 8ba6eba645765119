import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { startEvents, type TestEvents } from '../events/harness.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { keyServiceOf, type StoredKeys } from './harness.ts';

describe('the number of keys an account may have', () => {
  let connection: Connection;
  let drop: () => Promise<void>;
  let events: TestEvents;
  let keys: StoredKeys;

  before(async () => {
    ({ connection, drop } = await freshDatabase());
    events = await startEvents(connection);
    ({ keys } = keyServiceOf(connection));
    await keys.createIndexes();
  });
  after(() => drop());

  const newService = (maxKeys: number) =>
    keyServiceOf(connection, { maxKeys, publish: events.publish, transaction: events.transaction }).service;

  it('is not exceeded when two processes create many at the same moment, and each key has its event', async () => {
    const services = [newService(3), newService(3)];
    const made = await Promise.allSettled(
      Array.from({ length: 12 }, (_, i) => services[i % 2]?.create({ userId: 'usr_many' })),
    );
    const refused = made.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    expect(refused.map(({ code }) => code)).to.deep.equal(Array(9).fill('api_key_limit_reached'));
    expect(refused[0].message).to.equal('This account already has the maximum of 3 API keys; revoke one first');
    expect((await newService(3).list('usr_many')).keys).to.have.length(3);
    expect(await events.events.countDocuments({ userId: 'usr_many', type: 'api_key.created' })).to.equal(3);
  });

  it('does not count revoked and expired keys', async () => {
    const service = newService(2);
    const first = await service.create({ userId: 'usr_room' });
    const expiring = await service.create({ userId: 'usr_room', expiresAt: new Date(Date.now() + 600_000) });
    expect(await service.create({ userId: 'usr_room' }).catch(({ code }) => code)).to.equal('api_key_limit_reached');
    await service.revoke(first.id);
    await service.create({ userId: 'usr_room' });
    // it has expired, however long all this took
    await keys.updateOne({ _id: expiring.id }, { $set: { expiresAt: new Date(Date.now() - 1) } });
    await service.create({ userId: 'usr_room' });
    expect(await service.create({ userId: 'usr_room' }).catch(({ code }) => code)).to.equal('api_key_limit_reached');
    await newService(2).create({ userId: 'usr_other' });
  });
});

describe('an API key made over HTTP', () => {
  let live: LiveGateway;
  before(async () => {
    live = await startGateway({ limits: { apiKeys: 2 } });
  });
  after(() => live.close());

  const make = async (wanted: object) => {
    const { status, body } = await live.call('POST', '/v1/api_keys', { name: '', scopes: ['models'], ...wanted });
    return [status, body.error?.code, body.error?.param];
  };

  for (const [what, wanted, code, param] of [
    ['a name of 101 characters', { name: 'x'.repeat(101) }, 'invalid_value', 'name'],
    ['a name with a NUL', { name: 'a\0b' }, 'invalid_value', 'name'],
    ['no scope', { scopes: [] }, 'invalid_value', 'scopes'],
    ['an expiry in the past', { expires_at: '2020-01-01T00:00:00Z' }, 'invalid_value', 'expires_at'],
    ['an expiry on the 30th of February', { expires_at: '2099-02-30T00:00:00Z' }, 'invalid_value', 'expires_at'],
    ['an expiry at 24 o’clock', { expires_at: '2099-01-01T24:00:00Z' }, 'invalid_value', 'expires_at'],
    ['an expiry without a time zone', { expires_at: '2099-01-01T00:00:00' }, 'invalid_value', 'expires_at'],
  ] as const) {
    it(`is refused with ${what}`, async () => {
      expect(await make(wanted)).to.deep.equal([400, code, param]);
    });
  }

  it('is refused with 403 when the account has the maximum', async () => {
    expect(await make({ expires_at: '2096-02-29T23:59:59.5+01:00' })).to.deep.equal([201, undefined, undefined]);
    expect(await make({})).to.deep.equal([403, 'api_key_limit_reached', null]);
  });
});
