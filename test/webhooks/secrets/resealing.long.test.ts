import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { watchedDatabase } from '../../support/commands.ts';
import { createGateway } from '../../support/gateway.ts';
import { valid, webhookService } from '../support.ts';

const keyOf = (id: string) => `${id}:${randomBytes(32).toString('base64')}`;
const [k1, k2, k3] = [keyOf('k1'), keyOf('k2'), keyOf('k3')];

describe('secrets under more than one key', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;

  beforeEach(async () => {
    database = await watchedDatabase();
  });
  afterEach(() => database.drop());

  const serviceWith = (...secretKeys: string[]) => webhookService(database.connection, { secretKeys });
  const stored = () => database.connection.collection('gateway_webhooks').find().sort({ _id: 1 }).toArray();
  const startWith = (...secretKeys: string[]) => createGateway({ mongo: database.connection, secretKeys });

  it('are sealed with the first key and opened with any', async () => {
    const { service: before } = await serviceWith(k1);
    const { id } = await before.create('usr_1', valid);
    const { service } = await serviceWith(k2, k1);
    expect((await service.forDelivery(id))?.secret).to.equal(valid.secret);
    await service.rotateSecret('usr_1', id, { secret: 'another secret' });
    const [webhook] = await stored();
    expect(webhook).to.deep.include({ sealedWith: ['k2'] });
    expect(webhook?.rotation.previousSecret).to.match(/^v1\.k2\./);
  });

  it('are all sealed with the newest key by resealing, and open with it alone afterwards', async () => {
    const { service: before } = await serviceWith(k1);
    const ids: string[] = [];
    for (let i = 0; i < 230; i += 1) {
      const userId = `usr_${i % 10}`;
      const { id } = await before.create(userId, { ...valid, secret: `the secret of number ${i}` });
      ids.push(id);
      if (i % 7 === 0) await before.rotateSecret(userId, id, { secret: `the new secret of number ${i}` });
    }

    const { service } = await serviceWith(k2, k1);
    expect(await service.reseal()).to.deep.equal({ resealed: 230, unreadable: [] });
    expect(new Set((await stored()).flatMap(({ sealedWith }) => sealedWith))).to.deep.equal(new Set(['k2']));

    const { service: after } = await serviceWith(k2);
    for (const [i, id] of ids.entries()) {
      const { secret, rotation } = (await after.forDelivery(id)) ?? {};
      const first = `the secret of number ${i}`;
      expect([secret, rotation?.previousSecret]).to.deep.equal(
        i % 7 === 0 ? [`the new secret of number ${i}`, first] : [first, undefined],
      );
    }
    expect(await after.reseal(), 'a second time').to.deep.equal({ resealed: 0, unreadable: [] });
  });

  it('keep a change that is made while they are resealed', async () => {
    // every gateway knows the new key before any seals with it, as the README has it
    const { service: before } = await serviceWith(k1, k2);
    const { service } = await serviceWith(k2, k1);
    const ids = await Promise.all(Array.from({ length: 40 }, async () => (await before.create('usr_1', valid)).id));
    const rotations = ids.map((id) => before.rotateSecret('usr_1', id, { secret: 'changed meanwhile' }));
    const [results] = await Promise.all([Promise.all([service.reseal(), service.reseal()]), ...rotations]);
    expect(results.flatMap(({ unreadable }) => unreadable)).to.deep.equal([]);
    await service.reseal();
    const { service: after } = await serviceWith(k2);
    for (const id of ids) {
      const { secret, rotation } = (await after.forDelivery(id)) ?? {};
      expect([secret, rotation?.previousSecret]).to.deep.equal(['changed meanwhile', valid.secret]);
    }
  });

  it('lose the previous secret by resealing once its overlap has ended, and no longer need its key', async () => {
    const { service: before, webhooks } = await serviceWith(k1);
    const { id } = await before.create('usr_1', valid);
    const { service } = await serviceWith(k2, k1);
    await service.rotateSecret('usr_1', id, { secret: 'the newer secret' });
    await webhooks.collection.updateOne({ _id: id as never }, { $set: { 'rotation.endsAt': new Date(0) } });
    await service.reseal();
    const [webhook] = await stored();
    expect(webhook)
      .to.deep.include({ sealedWith: ['k2'] })
      .and.not.have.property('rotation');
  });

  it('that were altered are named and left, and the others are resealed', async () => {
    const { service: before, webhooks } = await serviceWith(k1);
    const { id: broken } = await before.create('usr_1', valid);
    const { id: sound } = await before.create('usr_1', valid);
    const elsewhere = await webhookService(database.connection, { prefix: 'other_', secretKeys: [keyOf('k1')] });
    const { id: other } = await elsewhere.service.create('usr_1', valid);
    const secret = (await elsewhere.webhooks.collection.findOne({ _id: other as never }))?.secret;
    await webhooks.collection.updateOne({ _id: broken as never }, { $set: { secret } });
    const { service } = await serviceWith(k2, k1);
    expect(await service.reseal()).to.deep.equal({ resealed: 1, unreadable: [broken] });
    expect((await service.forDelivery(sound))?.secret).to.equal(valid.secret);
  });

  it('stop a gateway from starting while a key is missing, with an error that names it and shows no key', async () => {
    const { service: first } = await serviceWith(k1);
    await first.create('usr_1', valid);
    const { service: second } = await serviceWith(k2);
    for (let i = 0; i < 3; i += 1) await second.create('usr_1', valid);

    const error = await startWith(k3).catch((e) => e);
    expect(error).to.include({ code: 'invalid_options', param: 'secretKeys' });
    expect(error.message).to.include("'k1'").and.include("'k2'").and.not.include("'k3'");
    for (const key of [k1, k2, k3]) expect(error.message).to.not.include(key.slice(3));

    const half = await startWith(k3, k1).catch((e) => e);
    expect(half.message).to.include("'k2'").and.not.include("'k1'");
    const gateway = await startWith(k3, k2, k1);
    expect(await gateway.webhooks.reseal()).to.deep.equal({ resealed: 4, unreadable: [] });
    await gateway.close();
    await (await startWith(k3)).close();
  });

  it('that need another key are found through the index alone', async () => {
    const { service } = await serviceWith(k1);
    for (let i = 0; i < 30; i += 1) await service.create('usr_1', valid);
    database.forget();
    expect(await service.reseal()).to.deep.equal({ resealed: 0, unreadable: [] });
    const queries = database.commandsTo('gateway_webhooks').filter(({ name }) => name === 'find');
    expect(queries).to.have.length.above(0);
    for (const { command } of queries) {
      const { find, filter, sort, hint, limit, projection } = command;
      const asked = {
        find,
        filter,
        ...(sort !== undefined && { sort }),
        ...(hint !== undefined && { hint }),
        ...(limit !== undefined && { limit }),
      };
      const explain = { ...asked, ...(projection !== undefined && { projection }) };
      const plan = await database.connection.db?.command({ explain, verbosity: 'executionStats' });
      const { totalDocsExamined, totalKeysExamined } = plan?.executionStats ?? {};
      expect([totalDocsExamined, totalKeysExamined < 3]).to.deep.equal([0, true]);
    }
  });
});
