import { expect } from 'chai';
import { createSetAsideLog, failureName, isItemFailure } from '../../../src/mongo/batcher.ts';
import { TimeoutError } from '../../../src/mongo/periodic.ts';
import { freshDatabase } from '../../support/mongo.ts';

describe('A write of several items that fails', () => {
  describe('is caused by an item', () => {
    let database: Awaited<ReturnType<typeof freshDatabase>>;
    before(async () => {
      database = await freshDatabase();
    });
    after(() => database.drop());

    const megabytes = (count: number) => 'x'.repeat(count * 1_048_576);
    const db = () => database.connection.getClient().db(database.connection.name);
    // biome-ignore lint/suspicious/noExplicitAny: what no type allows
    const collection = (): any => db().collection('items');
    const cases: [string, () => Promise<unknown>][] = [
      ['that is larger than a document may be', () => collection().insertMany([{ _id: 1 }, { _id: megabytes(17) }])],
      [
        'that is larger than a message, in a bare command',
        () => db().command({ insert: 'items', documents: [{ _id: 1, a: megabytes(18) }] }),
      ],
      [
        'that the server finds too large',
        () => db().command({ insert: 'items', documents: [{ _id: 1, a: megabytes(16) + 'x'.repeat(300_000) }] }),
      ],
      [
        'that makes a stored document too large',
        async () => {
          await collection().replaceOne({ _id: 'large' }, { a: megabytes(15) } as object, { upsert: true });
          const update = { $set: { b: megabytes(15) } } as object;
          await collection().bulkWrite([{ updateOne: { filter: { _id: 'large' }, update } }], { ordered: false });
        },
      ],
      ['that refers to itself', () => collection().insertOne(circular())],
      ['that is an operator', () => collection().findOne({ _id: { $in: [{ $ne: 1 }] } })],
      [
        'whose stored value is no number',
        async () => {
          await collection().replaceOne({ _id: 'text' }, { a: 'text' } as object, { upsert: true });
          await collection().updateOne({ _id: 'text' }, { $inc: { a: 1 } } as object);
        },
      ],
      ['whose id is not allowed', () => collection().insertOne({ _id: [1] })],
    ];

    function circular(): { _id: string; self?: object } {
      const item: { _id: string; self?: object } = { _id: 'circular' };
      item.self = item;
      return item;
    }

    for (const [name, write] of cases) {
      it(`${name}; its content is not logged`, async () => {
        const error = await write().then(
          () => expect.fail('was written'),
          (failure: unknown) => failure,
        );
        expect(isItemFailure(error), failureName(error)).to.equal(true);
        expect(failureName(error)).to.match(/^\w+( \w+)?$/);
      });
    }

    for (const code of [257, 388]) {
      it(`whose transaction is too large: the server says ${code}, and fewer items may fit`, async () => {
        const { mongo } = await import('mongoose');
        expect(isItemFailure(new mongo.MongoServerError({ code, message: 'm' }))).to.equal(true);
      });
    }

    for (const code of [11_000, 10_107, 189, 11_600, 11_601, 91, 50, 262, 13, 112, 251, 64, 14_031]) {
      it(`unless the server says ${code}`, async () => {
        const { mongo } = await import('mongoose');
        expect(isItemFailure(new mongo.MongoServerError({ code, message: 'm' }))).to.equal(false);
      });
    }

    it('unless the database was not reached, or does not answer', async () => {
      const { mongo } = await import('mongoose');
      expect(isItemFailure(new mongo.MongoNetworkError('reset'))).to.equal(false);
      expect(isItemFailure(new mongo.MongoServerSelectionError('none', {} as never))).to.equal(false);
      expect(isItemFailure(new TimeoutError('none'))).to.equal(false);
      expect(isItemFailure(new Error('anything'))).to.equal(false);
    });
  });

  it('is logged once for many at the same time, with a count and the name of the error, not its message', () => {
    const lines: object[] = [];
    const log = createSetAsideLog({ error: (message, context) => void lines.push({ message, ...context }) }, 'aside');
    for (let i = 0; i < 100; i += 1) log(new RangeError('secret content'), { id: i });
    expect(lines).to.deep.equal([{ message: 'aside', count: 1, reason: 'RangeError', id: 0 }]);
  });
});
