import { expect } from 'chai';
import { UnansweredError } from '../../src/mongo/with-timeout.ts';
import { createSetAsideLog, failureName, isItemFailure, writeIsolated } from '../../src/mongo/write-failure.ts';
import { freshDatabase } from '../support/mongo.ts';

describe('A write of several items that fails', () => {
  /** Writes numbers; a poisoned one fails whatever it is written with. */
  function watched(poison: readonly number[], failWith: (items: readonly number[]) => unknown = () => undefined) {
    const tries: (readonly number[])[] = [];
    const write = async (items: readonly number[]) => {
      tries.push(items);
      const failure = failWith(items);
      if (failure) throw failure;
      if (items.some((item) => poison.includes(item))) throw new RangeError('too large');
      return items.map((item) => item * 2);
    };
    return { tries, write };
  }
  const items = Array.from({ length: 100 }, (_, i) => i);

  it('because of one of them fails for that one alone, in a few more writes', async () => {
    const { tries, write } = watched([37]);
    const outcomes = await writeIsolated(items, { write });
    const failed = outcomes.flatMap((outcome, i) => ('error' in outcome ? [i] : []));
    expect(failed).to.deep.equal([37]);
    expect(outcomes[99]).to.deep.equal({ result: 198 });
    expect(tries.length).to.be.at.most(1 + 2 * Math.ceil(Math.log2(items.length)));
  });

  it('because of all of them costs no more than two writes for each', async () => {
    const { tries, write } = watched(items);
    await writeIsolated(items, { write });
    expect(tries.length).to.be.below(2 * items.length);
  });

  it('because of the database is not tried for each, and fails for what is not written yet', async () => {
    const gone = new UnansweredError('gone');
    const whole = watched([], () => gone);
    expect(await writeIsolated(items, { write: whole.write })).to.deep.equal(items.map(() => ({ error: gone })));
    expect(whole.tries).to.have.length(1);

    let count = 0;
    const midway = watched([99], () => {
      count += 1;
      return count === 3 ? gone : undefined;
    });
    const outcomes = await writeIsolated(items, { write: midway.write });
    expect(outcomes[0]).to.deep.equal({ result: 0 });
    expect(outcomes.slice(50)).to.deep.equal(items.slice(50).map(() => ({ error: gone })));
    expect(midway.tries).to.have.length(3);
  });

  it('is told from the second try on that it may have been done', async () => {
    const tries: boolean[] = [];
    await writeIsolated([1, 2], {
      write: async (part, isFirstTry) => {
        tries.push(isFirstTry);
        if (part.length > 1) throw new TypeError('poisoned');
        return part;
      },
    });
    expect(tries).to.deep.equal([true, false, false]);
  });

  describe('belongs to an item', () => {
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
      ['that has no id that there may be', () => collection().insertOne({ _id: [1] })],
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
      expect(isItemFailure(new UnansweredError('none'))).to.equal(false);
      expect(isItemFailure(new Error('anything'))).to.equal(false);
    });
  });

  it('is logged once a minute, with how many it was, and never with a message', () => {
    const lines: object[] = [];
    const log = createSetAsideLog({ error: (message, context) => void lines.push({ message, ...context }) }, 'aside');
    for (let i = 0; i < 100; i += 1) log(new RangeError('secret content'), { id: i });
    expect(lines).to.deep.equal([{ message: 'aside', count: 1, reason: 'RangeError', id: 0 }]);
  });
});
