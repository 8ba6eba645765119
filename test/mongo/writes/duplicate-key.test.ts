import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { duplicatesIn, isDuplicateKey } from '../../../src/mongo/writes.ts';
import { freshDatabase } from '../../support/mongo.ts';

describe('a duplicate key', () => {
  let connection: Connection;
  let drop: () => Promise<void>;
  const failed = (write: Promise<unknown>) =>
    write.then(
      () => expect.fail('was written'),
      (error: unknown) => error,
    );

  before(async () => {
    ({ connection, drop } = await freshDatabase());
  });
  after(() => drop());

  it('is distinguished from other errors, and by the key of its index', async () => {
    const things = connection.collection<{ _id: string; slot: number }>('things');
    await things.createIndex({ slot: 1 }, { unique: true });
    await things.insertOne({ _id: 'a', slot: 1 });
    const sameId = await failed(things.insertOne({ _id: 'a', slot: 2 }));
    const sameSlot = await failed(things.insertOne({ _id: 'b', slot: 1 }));

    expect([isDuplicateKey(sameId), isDuplicateKey(sameId, 'slot')]).to.deep.equal([true, false]);
    expect([isDuplicateKey(sameSlot), isDuplicateKey(sameSlot, 'slot')]).to.deep.equal([true, true]);
    expect(isDuplicateKey(new Error('no primary'))).to.equal(false);
  });

  it('is found by its position in a bulk write', async () => {
    const things = connection.collection<{ _id: string }>('others');
    await things.insertMany([{ _id: 'b' }, { _id: 'd' }]);
    const documents = ['a', 'b', 'c', 'd'].map((_id) => ({ _id }));
    const error = await failed(things.insertMany(documents, { ordered: false }));

    expect(duplicatesIn(error)).to.deep.equal(new Set([1, 3]));
  });

  for (const [what, error] of Object.entries({
    'another error beside it': {
      writeErrors: [
        { code: 11_000, index: 0 },
        { code: 121, index: 1 },
      ],
    },
    'a majority that did not confirm the others': {
      writeErrors: [{ code: 11_000, index: 0 }],
      result: { getWriteConcernError: () => ({ code: 64 }) },
    },
    'an error that is of no document': new Error('no primary'),
  })) {
    it(`does not hide ${what}`, () => {
      expect(() => duplicatesIn(error))
        .to.throw()
        .that.equals(error);
    });
  }
});
