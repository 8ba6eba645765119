import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { GatewayError } from '../../src/index.ts';
import type { KeyService, KeyServiceDeps } from '../../src/keys/service.ts';
import { type SeenCommand, watchedDatabase } from '../support/commands.ts';
import { newId } from '../support/ids.ts';
import { until } from '../support/until.ts';
import { keyServiceOf, type StoredKeys } from './harness.ts';

describe('API keys', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let keys: StoredKeys;

  const finds = () => database.commandsTo('gateway_keys').filter(({ name }) => name === 'find' || name === 'aggregate');
  const isConfirming = ({ command }: SeenCommand) =>
    (command.readConcern as { level?: string } | undefined)?.level === 'linearizable';
  const lookUps = () => finds().filter((find) => !isConfirming(find)).length;
  const confirmations = () => finds().filter(isConfirming).length;
  const withLastCharacter = (key: string) => key.slice(0, -1) + (key.endsWith('A') ? 'B' : 'A');

  /** A key as the service makes them, which it has not made. */
  const unknownKey = () => `emg_${newId('key', Date.now()).slice(4)}_${randomBytes(32).toString('base64url')}`;

  /** For tests that count look-ups: a busy machine may take longer than the usual second for which a key is remembered. Milliseconds. */
  const longTtl = { cacheTtl: 60_000 };

  let services: KeyService[] = [];

  function newService(own: Partial<KeyServiceDeps> = {}): KeyService {
    const { service } = keyServiceOf(database.connection, own);
    services.push(service);
    return service;
  }

  before(async () => {
    database = await watchedDatabase();
    ({ keys } = keyServiceOf(database.connection));
    await keys.createIndexes();
  });
  beforeEach(() => database.forget());
  afterEach(async () => {
    // a last use that is written later would be seen by the next test
    await Promise.all(services.map((service) => service.close()));
    services = [];
  });
  after(() => database.drop());

  it('are shown once: the database has the digest, not the text', async () => {
    const service = newService();
    const made = await service.create({ userId: 'usr_1', name: 'laptop' });
    expect(made).to.include({ userId: 'usr_1', name: 'laptop' });
    expect(made.createdAt).to.be.instanceOf(Date);
    const stored = JSON.stringify(await keys.collection.findOne({ _id: made.id as never }));
    expect(stored).to.not.include(made.key.slice(31));
    expect(JSON.stringify(await service.get(made.id))).to.not.match(/hash|digest/);
  });

  it('take no scopes from what somebody has put on Object.prototype', async () => {
    Object.defineProperty(Object.prototype, 'scopes', { value: ['admin'], configurable: true });
    try {
      expect((await newService().create({ userId: 'usr_polluted' })).scopes).to.not.include('admin');
    } finally {
      Reflect.deleteProperty(Object.prototype, 'scopes');
    }
  });

  it('authenticate their user, with the key id and the default scopes', async () => {
    const service = newService();
    const { id, key } = await service.create({ userId: 'usr_1' });
    expect(await service.authenticate(key)).to.deep.equal({
      userId: 'usr_1',
      keyId: id,
      scopes: ['models', 'webhooks', 'keys'],
    });
  });

  it('are refused when malformed, without a database query', async () => {
    const service = newService();
    for (const token of ['', 'sk-123', 'emg_', '\0', '\ud800', '__proto__', { $ne: null }, ['emg_'], null]) {
      expect(await service.authenticate(token as string)).to.equal(null);
    }
    expect(database.commandsTo('gateway_keys')).to.deep.equal([]);
  });

  it('are refused with a wrong secret, and when they do not exist', async () => {
    const service = newService();
    const { key } = await service.create({ userId: 'usr_1' });
    expect(await service.authenticate(withLastCharacter(key))).to.equal(null);
    expect(await service.authenticate(key.replace(/^emg_.{26}/, `emg_${'0'.repeat(26)}`))).to.equal(null);
    expect(await service.authenticate(key)).to.not.equal(null);
  });

  it('cost one look-up while they are in use, however many requests come at once', async () => {
    const service = newService(longTtl);
    const { key } = await service.create({ userId: 'usr_1' });
    database.forget();
    await Promise.all(Array.from({ length: 20 }, () => service.authenticate(key)));
    await service.authenticate(key);
    expect(lookUps()).to.equal(1);
  });

  it('that do not exist cost a few look-ups for a thousand of them, and none when they are sent again', async () => {
    const service = newService(longTtl);
    const strange = Array.from({ length: 1_000 }, () => unknownKey());
    for (let round = 0; round < 3; round++) {
      expect(new Set(await Promise.all(strange.map(service.authenticate)))).to.deep.equal(new Set([null]));
    }
    expect(lookUps()).to.be.within(1, 4);
    expect(confirmations()).to.be.within(1, 2);
  });

  it('that exist need no confirming read, and one that does not exist needs one', async () => {
    const service = newService();
    const { key } = await service.create({ userId: 'usr_1' });
    await service.authenticate(key);
    await service.authenticate(withLastCharacter(key));
    expect(confirmations()).to.equal(0);
    expect(await service.authenticate(unknownKey())).to.equal(null);
    expect(confirmations()).to.equal(1);
    await service.close();
  });

  it('created by another process are accepted within a second, even if they were looked up before', async () => {
    const [here, there] = [newService(), newService()];
    const { id, key } = await here.create({ userId: 'usr_1' });
    // as it was before it was created
    const stored = await keys.findByIdAndDelete(id).lean();
    expect(await there.authenticate(key)).to.equal(null);
    await keys.collection.insertOne(stored as never);
    const created = performance.now();
    let lastRefused = created;
    for (let asked = created; (await there.authenticate(key)) === null; asked = performance.now()) {
      lastRefused = asked;
      // the pause between two requests
      await sleep(5);
    }
    expect(lastRefused - created).to.be.below(1_000);
  });

  it('are recognised without a wait while they are cached, and only with the right secret', async () => {
    const service = newService(longTtl);
    const { key } = await service.create({ userId: 'usr_1' });
    expect(service.authenticateCached(key)).to.equal(undefined);
    await service.authenticate(key);
    expect(service.authenticateCached(key)).to.include({ userId: 'usr_1' });
    expect(service.authenticateCached(withLastCharacter(key))).to.equal(null);
  });

  it('stay cached while others guess secrets and ids', async () => {
    const service = newService({ ...longTtl, cacheCapacity: 1 });
    const good = await service.create({ userId: 'usr_1' });
    const other = await service.create({ userId: 'usr_2' });
    await service.authenticate(good.key);
    database.forget();
    await service.authenticate(withLastCharacter(other.key));
    await service.authenticate(good.key.replace(/^emg_.{26}/, `emg_${'z'.repeat(26)}`));
    await service.authenticate(withLastCharacter(good.key));
    expect(lookUps()).to.equal(2);
    expect(await service.authenticate(good.key)).to.not.equal(null);
    expect(lookUps()).to.equal(2);
  });

  it('are refused at once by the process that revoked them', async () => {
    const service = newService();
    const { id, key } = await service.create({ userId: 'usr_1' });
    await service.authenticate(key);
    expect(await service.revoke(id)).to.equal(true);
    expect(await service.authenticate(key)).to.equal(null);
    expect((await service.get(id))?.revokedAt).to.be.instanceOf(Date);
  });

  it('are refused after cacheTtl when another process has revoked them', async () => {
    const here = newService({ cacheTtl: 50 });
    const there = newService();
    const { id, key } = await there.create({ userId: 'usr_1' });
    await here.authenticate(key);
    await there.revoke(id);
    // longer than the key is remembered
    await sleep(60);
    expect(await here.authenticate(key)).to.equal(null);
  });

  it('stay revoked although a request that began before is still under way', async () => {
    const service = newService();
    const { id, key } = await service.create({ userId: 'usr_1' });
    await Promise.all([service.authenticate(key), service.revoke(id), service.authenticate(key)]);
    expect(await service.authenticate(key)).to.equal(null);
  });

  it('keep the time of their first revocation', async () => {
    const service = newService();
    const { id } = await service.create({ userId: 'usr_1' });
    await service.revoke(id);
    const first = (await service.get(id))?.revokedAt;
    expect(await service.revoke(id)).to.equal(false);
    expect((await service.get(id))?.revokedAt).to.deep.equal(first);
  });

  it('are listed for their owner alone, oldest first', async () => {
    const service = newService();
    const first = await service.create({ userId: 'usr_list', name: 'first' });
    // ids are in the order of their milliseconds
    await sleep(2);
    const second = await service.create({ userId: 'usr_list', name: 'second' });
    await service.create({ userId: 'usr_list_other' });
    const { keys: listed } = await service.list('usr_list');
    expect(listed.map(({ id }) => id)).to.deep.equal([first.id, second.id]);
    expect(listed[0]).to.deep.equal({
      id: first.id,
      userId: 'usr_list',
      name: 'first',
      scopes: ['models', 'webhooks', 'keys'],
      models: null,
      budgets: [],
      createdAt: first.createdAt,
      expiresAt: null,
      lastUsedAt: null,
      revokedAt: null,
    });
  });

  it('are listed page by page', async () => {
    const service = newService();
    const made = [];
    for (let i = 0; i < 3; i += 1) {
      made.push((await service.create({ userId: 'usr_pages' })).id);
      // ids are in the order of their milliseconds
      await sleep(2);
    }
    const first = await service.list('usr_pages', { limit: 2 });
    const second = await service.list('usr_pages', { limit: 2, after: made[1] as string });
    expect([first.keys.map(({ id }) => id), first.hasMore]).to.deep.equal([made.slice(0, 2), true]);
    expect([second.keys.map(({ id }) => id), second.hasMore]).to.deep.equal([made.slice(2), false]);
  });

  it('are refused after they expire, once their cached record is too old', async () => {
    const service = newService({ cacheTtl: 20 });
    const { id, key } = await service.create({ userId: 'usr_1', expiresAt: new Date(Date.now() + 600_000) });
    expect(await service.authenticate(key)).to.not.equal(null);
    // it expires soon, but only after that request, however long it took
    await keys.updateOne({ _id: id }, { $set: { expiresAt: new Date(Date.now() + 50) } });
    await until(async () => (await service.authenticate(key)) === null);
  });

  it('authenticate with their scopes, the models that they may call and their expiry', async () => {
    const service = newService();
    const expiresAt = new Date(Date.now() + 60_000);
    const { key, id } = await service.create({
      userId: 'usr_1',
      scopes: ['models', 'admin', 'models'],
      models: ['m'],
      expiresAt,
    });
    const principal = { userId: 'usr_1', keyId: id, scopes: ['models', 'admin'], models: ['m'], expiresAt };
    expect(await service.authenticate(key)).to.deep.equal(principal);
  });

  it('take a time of another realm, as a test in Jest may have it', async () => {
    const expiresAt: Date = runInNewContext('new Date(Date.now() + 60_000)');
    expect(expiresAt).to.not.be.instanceOf(Date);
    const service = newService();
    const { id } = await service.create({ userId: 'usr_1', expiresAt });
    expect((await service.get(id))?.expiresAt).to.deep.equal(new Date(expiresAt.getTime()));
  });

  it('record their last use, once for many requests in a minute', async () => {
    const service = newService({ lastUsedDelay: 1 });
    const { id, key } = await service.create({ userId: 'usr_1' });
    database.forget();
    for (let i = 0; i < 5; i += 1) await service.authenticate(key);
    await until(async () => (await service.get(id))?.lastUsedAt);
    for (let i = 0; i < 5; i += 1) await service.authenticate(key);
    await service.close();
    expect(database.commandsTo('gateway_keys').filter(({ name }) => name === 'update')).to.have.length(1);
    expect((await service.get(id))?.lastUsedAt?.getTime()).to.be.closeTo(Date.now(), 5_000);
  });

  it('record no use when the secret is wrong', async () => {
    const service = newService({ lastUsedDelay: 1 });
    const { id, key } = await service.create({ userId: 'usr_1' });
    await service.authenticate(withLastCharacter(key));
    await service.close();
    expect((await service.get(id))?.lastUsedAt).to.equal(null);
  });

  const refused: [param: string, input: object][] = [
    ['scopes', { scopes: [] }],
    ['scopes', { scopes: 'models' }],
    ['scopes[1]', { scopes: ['models', 'everything'] }],
    ['scopes[0]', { scopes: [{ $ne: null }] }],
    ['models', { models: [] }],
    ['models[0]', { models: [''] }],
    ['models[0]', { models: [{ $ne: null }] }],
    ['expires_at', { expiresAt: new Date(0) }],
    ['expires_at', { expiresAt: new Date('never') }],
    ['expires_at', { expiresAt: '2099-01-01' }],
  ];
  for (const [param, input] of refused) {
    it(`cannot be created with ${JSON.stringify(input)}`, async () => {
      const error = await newService()
        .create({ userId: 'usr_1', ...input })
        .catch((thrown) => thrown);
      expect(error).to.include({ code: 'invalid_value', param });
    });
  }

  it('are not found by anything that is not an id', async () => {
    const service = newService();
    await service.create({ userId: 'usr_1' });
    for (const id of ['', 'key_', '__proto__', 'key_\0', { $ne: null }, { $gt: '' }, null, ['key_']]) {
      expect(await service.get(id as string)).to.equal(null);
      expect(await service.revoke(id as string)).to.equal(false);
    }
  });

  for (const userId of ['', 'u'.repeat(257), 'usr\0', 'usr\ud800', { $ne: null }, ['usr_1'], 7, null]) {
    it(`cannot be created or listed for the user ${JSON.stringify(userId).slice(0, 40)}`, async () => {
      const service = newService();
      const attempts = await Promise.allSettled([
        service.create({ userId: userId as string }),
        service.list(userId as string),
      ]);
      for (const attempt of attempts) {
        expect(attempt.status).to.equal('rejected');
        const { reason } = attempt as PromiseRejectedResult;
        expect(reason).to.be.instanceOf(GatewayError);
        expect(reason).to.include({ code: 'invalid_value', param: 'userId' });
      }
      expect(database.commandsTo('gateway_keys')).to.deep.equal([]);
    });
  }

  it('belong to a user called __proto__ as to any other', async () => {
    const service = newService();
    const { id, key } = await service.create({ userId: '__proto__' });
    expect(await service.authenticate(key)).to.include({ userId: '__proto__', keyId: id });
    expect((await service.list('__proto__')).keys).to.have.length(1);
  });

  for (const name of ['n'.repeat(101), 'a\0b', 'a\udc00b', { $set: 1 }, null]) {
    it(`cannot be named ${JSON.stringify(name).slice(0, 40)}`, async () => {
      const service = newService();
      const error = await service.create({ userId: 'usr_1', name: name as string }).catch((thrown) => thrown);
      expect(error).to.include({ code: 'invalid_value', param: 'name' });
    });
  }

  it('are written to a majority and the journal', async () => {
    const service = newService();
    const { id } = await service.create({ userId: 'usr_1' });
    await service.revoke(id);
    // the last use of another test's key may be written meanwhile
    const ofThisKey = ({ name, command }: { name: string; command: object }) =>
      name !== 'find' && inspect(command, { depth: 5 }).includes(id);
    const writes = database.commandsTo('gateway_keys').filter(ofThisKey);
    expect(writes.map(({ name }) => name)).to.deep.equal(['insert', 'findAndModify']);
    for (const { command } of writes) expect(command.writeConcern).to.deep.equal({ w: 'majority', j: true });
  });

  it('keep their collections apart by prefix, and share one model where two gateways share the prefix', () => {
    expect(keyServiceOf(database.connection).keys).to.equal(keys);
    const { keys: other } = keyServiceOf(database.connection, {}, 'other_');
    expect(other).to.not.equal(keys);
    expect(other.collection.collectionName).to.equal('other_keys');
  });

  it('cannot be looked up by a field that does not exist', async () => {
    const error = await keys.find({ usrId: 'usr_1' } as never).catch((thrown) => thrown);
    expect(error).to.have.property('name', 'StrictModeError');
  });
});
