import { expect } from 'chai';
import type { StoredObjects } from '../../src/stored/service.ts';
import { buildIndexes } from '../support/database/indexes.ts';
import { freshDatabase } from '../support/mongo.ts';
import { openStoredRecords } from './records.ts';

const day = 86_400_000;

const items = (...ids: string[]) => ids.map((id) => ({ kind: 'item', id }) as const);

describe('the records of what upstreams keep', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let stored: StoredObjects;
  let warnings: object[];
  const logger = { warn: (_message: string, fields?: object) => void warnings.push(fields ?? {}) };

  before(async () => {
    database = await freshDatabase();
    warnings = [];
    const { objects, records } = openStoredRecords(database.connection, { logger });
    stored = records;
    await buildIndexes(database.connection, objects);
  });

  after(() => database.drop());

  const collection = () =>
    database.connection.collection<{ _id: string; createdAt: Date; expiresAt?: Date }>('test_stored');
  const object = (id: string, kind: Parameters<StoredObjects['add']>[0]['kind'], userId = 'usr_1') => ({
    id,
    kind,
    userId,
    upstream: 'one',
    model: 'm',
  });

  it('expire after the days of the option; those of conversations never do', async () => {
    for (const kind of ['response', 'chat_completion', 'conversation'] as const) {
      await stored.add(object(`expiring_${kind}`, kind));
      const { createdAt, expiresAt } = (await collection().findOne({ _id: `expiring_${kind}` })) ?? {};
      const kept = expiresAt === undefined ? undefined : expiresAt.getTime() - (createdAt as Date).getTime();
      expect(kept, kind).to.equal(kind === 'conversation' ? undefined : 7 * day);
    }
    const indexes = await collection().indexes();
    expect(indexes.find(({ name }) => name === 'expiry')).to.include({ expireAfterSeconds: 0 });
  });

  it('are found by account, kind and id together', async () => {
    await stored.add(object('resp_found', 'response'));
    const found = await stored.find({ id: 'resp_found', kind: 'response', userId: 'usr_1' });
    expect(found).to.deep.equal(object('resp_found', 'response'));
    expect(await stored.find({ id: 'resp_found', kind: 'response', userId: 'usr_2' })).to.equal(null);
    expect(await stored.find({ id: 'resp_found', kind: 'conversation', userId: 'usr_1' })).to.equal(null);
  });

  it('keep their first account when several accounts add the same id at once, with a warning for the others', async () => {
    const made = Array.from({ length: 20 }, (_, i) => object('resp_again', 'response', `usr_${i % 2}`));
    await Promise.all(made.map((one) => stored.add(one)));
    const owners = await Promise.all(
      ['usr_0', 'usr_1'].map((userId) => stored.find({ id: 'resp_again', kind: 'response', userId })),
    );
    expect(owners.filter(Boolean)).to.have.lengthOf(1);
    expect(warnings).to.have.lengthOf(10);
  });

  it('are removed by their own account only', async () => {
    await stored.add(object('resp_removed', 'response'));
    await stored.remove(object('resp_removed', 'response', 'usr_2'));
    expect(await stored.find(object('resp_removed', 'response'))).to.not.equal(null);
    await stored.remove(object('resp_removed', 'response'));
    expect(await stored.find(object('resp_removed', 'response'))).to.equal(null);
  });

  it('are listed in the order in which they were made, also within one millisecond', async () => {
    const ids = Array.from({ length: 5 }, (_, i) => `chat_${i}`);
    await Promise.all(ids.map((id) => stored.add(object(id, 'chat_completion', 'usr_list'))));
    await collection().updateMany({ _id: { $in: ids } }, { $set: { createdAt: new Date(0) } });
    const query = { userId: 'usr_list', kind: 'chat_completion', limit: 2 } as const;
    const pages: string[] = [];
    let after: string | undefined;
    do {
      const page = await stored.list({ ...query, order: 'desc', ...(after !== undefined && { after }) });
      const shown = page.slice(0, query.limit).map(({ id }) => id);
      pages.push(...shown);
      after = page.length > query.limit ? shown.at(-1) : undefined;
    } while (after !== undefined);
    expect(pages).to.deep.equal(ids.toReversed());
    expect(await stored.list({ ...query, order: 'asc', after: 'chat_unknown' })).to.deep.equal([]);
  });

  it('of items are found for each account that was shown them, and expire after they were last shown', async () => {
    const keeper = { userId: 'usr_1', upstream: 'one', model: '$m' };
    await stored.addShown(items('msg_a', 'msg_b', 'msg_a'), keeper);
    await stored.addShown(items('msg_b'), { ...keeper, userId: 'usr_2' });
    const ids = ['msg_a', 'msg_b', 'msg_none'];
    const { own, foreign } = await stored.findItems({ ids, userId: 'usr_2' });
    expect([...own.keys()]).to.deep.equal(['msg_b']);
    expect([...foreign]).to.deep.equal(['msg_a']);
    const found = await stored.find({ id: 'msg_a', kind: 'item', userId: 'usr_1' });
    expect(found).to.deep.equal({ id: 'msg_a', kind: 'item', ...keeper });
    const filter = { item: 'msg_a' } as object;
    await collection().updateOne(filter, { $set: { expiresAt: new Date(0) } });
    await stored.addShown(items('msg_a'), keeper);
    const { createdAt, expiresAt } = (await collection().findOne(filter)) ?? {};
    expect((expiresAt as Date).getTime() - (createdAt as Date).getTime()).to.equal(7 * day);
  });

  it('of items are written to the log where they cannot be stored', async () => {
    const away = { require() {}, run: () => Promise.reject(new Error('lost')), isUnavailable: false };
    const { records: lost } = openStoredRecords(database.connection, { database: away, logger });
    warnings.length = 0;
    await lost.addShown(items('msg_lost'), { userId: 'usr_1', upstream: 'one', model: null });
    expect(warnings).to.deep.equal([{ upstream: 'one', reason: 'Error: lost' }]);
  });
});
