import { expect } from 'chai';
import type { mongo } from 'mongoose';
import { createReadConfirmed, findOneConfirmed } from '../../src/mongo/confirmed-reads.ts';
import { isUnavailable } from '../../src/mongo/unavailable.ts';
import { watchedDatabase } from '../support/commands.ts';
import { valid, webhookService } from '../webhooks/support.ts';

describe('a confirmed read', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let things: mongo.Collection<{ _id: string }>;

  before(async () => {
    database = await watchedDatabase();
    things = database.connection.getClient().db(database.connection.name).collection<{ _id: string }>('things');
    await things.insertOne({ _id: 'a' }, { writeConcern: { w: 'majority' } });
  });
  beforeEach(() => database.forget());
  after(() => database.drop());

  const read = (id: string) => () => things.findOne({ _id: id });
  const levels = (collection = 'things') =>
    database
      .commandsTo(collection)
      .map(({ command }) => (command.readConcern as { level?: string } | undefined)?.level);

  it('costs no second read when the document is found', async () => {
    expect(await createReadConfirmed(things)('a', read('a'))).to.deep.equal({ _id: 'a' });
    expect(levels()).to.deep.equal([undefined]);
  });

  it('returns null when the database confirms that there is nothing', async () => {
    expect(await createReadConfirmed(things)('none', read('none'))).to.equal(null);
    expect(levels()).to.deep.equal([undefined, 'linearizable']);
  });

  it('reads again when the document exists after all', async () => {
    const found = [null, { _id: 'a' }];
    expect(await createReadConfirmed(things)('a', async () => found.shift() ?? null)).to.deep.equal({ _id: 'a' });
    expect(found).to.deep.equal([]);
  });

  it('shares one confirming read with all others that find nothing at the same time', async () => {
    const readConfirmed = createReadConfirmed(things);
    const ids = Array.from({ length: 5_000 }, (_, i) => `none ${i}`);
    const found = await Promise.all(ids.map((id) => readConfirmed(id, async () => null)));
    expect(new Set(found)).to.deep.equal(new Set([null]));
    expect(levels()).to.deep.equal(['linearizable']);
  });

  it('of a webhook is one when 500 deliveries ask for it at once', async () => {
    const { service } = await webhookService(database.connection);
    const { id } = await service.create('usr_1', valid);
    database.forget();
    const found = await Promise.all(Array.from({ length: 500 }, () => service.forDelivery(id, () => false)));
    expect(found.filter((webhook) => webhook && 'id' in webhook && webhook.id === id)).to.have.length(500);
    expect(levels('gateway_webhooks').filter((level) => level === 'linearizable')).to.have.length(1);
  });

  it('returns null where a replica set has a single member', async () => {
    expect(await findOneConfirmed(things, { _id: 'none' })).to.equal(null);
  });

  it('fails as unavailable when the server cannot confirm that it is linearizable', async () => {
    const admin = database.connection.getClient().db('admin');
    // LinearizableReadConcernError, which the server answers where the confirming write times out
    const data = { failCommands: ['find'], errorCode: 187, namespace: things.namespace };
    await admin.command({ configureFailPoint: 'failCommand', mode: { skip: 1 }, data });
    try {
      const error = await findOneConfirmed(things, { _id: 'none' }).catch((reason) => reason);
      expect(isUnavailable(error), String(error)).to.equal(true);
    } finally {
      await admin.command({ configureFailPoint: 'failCommand', mode: 'off' });
    }
  });
});
