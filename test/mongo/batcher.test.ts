import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import {
  type BatcherOptions,
  createBatcher,
  createSetAsideLog,
  isItemFailure,
  writeIsolated,
} from '../../src/mongo/batcher.ts';
import { TimeoutError } from '../../src/mongo/periodic.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';

describe('A batcher', () => {
  /** A batcher whose writes end when the test says so. */
  function start(choices: Partial<BatcherOptions<number, string>> = {}) {
    const writes: { items: readonly number[]; end: () => void; fail: (error: Error) => void }[] = [];
    const batcher = createBatcher<number, string>({
      write: (items) =>
        new Promise((resolve, reject) => {
          writes.push({ items, end: () => resolve(items.map((item) => `result ${item}`)), fail: reject });
        }),
      maxSize: 100,
      ...choices,
    });
    return { batcher, writes, batches: () => writes.map(({ items }) => items) };
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  it('writes items of the same turn in one batch, and gives each caller its own result', async () => {
    const { batcher, writes, batches } = start();
    const results = Promise.all([batcher.add(1), batcher.add(2), batcher.add(3)]);
    await turn();
    writes[0]?.end();

    expect(await results).to.deep.equal(['result 1', 'result 2', 'result 3']);
    expect(batches()).to.deep.equal([[1, 2, 3]]);
  });

  it('collects the items that come during a write into the next batch', async () => {
    const { batcher, writes, batches } = start();
    const first = batcher.add(1);
    await turn();
    const others = [batcher.add(2), batcher.add(3)];
    await turn();
    expect(batches()).to.deep.equal([[1]]);
    writes[0]?.end();
    await first;
    await turn();
    writes[1]?.end();
    await Promise.all(others);

    expect(batches()).to.deep.equal([[1], [2, 3]]);
  });

  it('waits maxDelay for more items when the batch before had several, and not for a single caller', async () => {
    const { batcher, writes, batches } = start({ maxDelay: 500 });
    const alone = batcher.add(1);
    await turn();
    expect(batches()).to.deep.equal([[1]]);
    writes[0]?.end();
    await alone;

    const pair = [batcher.add(2), batcher.add(3)];
    await turn();
    writes[1]?.end();
    await Promise.all(pair);
    const late = [batcher.add(4)];
    await turn();
    late.push(batcher.add(5));
    await turn();
    expect(batches()).to.deep.equal([[1], [2, 3]]);
    await until(() => writes.length >= 3);
    writes[2]?.end();
    await Promise.all(late);

    expect(batches()).to.deep.equal([[1], [2, 3], [4, 5]]);
  });

  it('waits for nobody when the batch that had several was long ago', async () => {
    const { batcher, writes, batches } = start({ maxDelay: 30 });
    const pair = [batcher.add(1), batcher.add(2)];
    await turn();
    writes[0]?.end();
    await Promise.all(pair);
    // longer than ten times maxDelay
    await sleep(310);
    const alone = batcher.add(3);
    await turn();
    expect(batches()).to.deep.equal([[1, 2], [3]]);
    writes[1]?.end();
    await alone;
  });

  it('writes at once after a pause, and then waits until `interval` is over or enough items wait', async () => {
    const { batcher, writes, batches } = start({ interval: 500, enough: 3 });
    const startedAt = performance.now();
    const first = batcher.add(1);
    await turn();
    expect(batches()).to.deep.equal([[1]]);
    const few = [batcher.add(2)];
    writes[0]?.end();
    await first;
    few.push(batcher.add(3));
    await turn();
    expect(batches()).to.deep.equal([[1]]);
    await until(() => writes.length >= 2);
    // Node rounds down how long a timer takes and when it begins, each by less than 1 ms
    expect(performance.now() - startedAt).to.be.at.least(498);
    writes[1]?.end();
    await Promise.all(few);

    const some = [batcher.add(4), batcher.add(5)];
    await turn();
    expect(batches()).to.deep.equal([[1], [2, 3]]);
    some.push(batcher.add(6));
    await turn();
    expect(batches()).to.deep.equal([[1], [2, 3], [4, 5, 6]]);
    writes[2]?.end();
    await Promise.all(some);
  });

  it('writes at once what waits when it closes, and waits no more', async () => {
    const { batcher, writes, batches } = start({ interval: 60_000 });
    const first = batcher.add(1);
    await turn();
    writes[0]?.end();
    await first;
    const waiting = batcher.add(2);
    await turn();
    expect(batches()).to.deep.equal([[1]]);
    batcher.close();
    expect(batches()).to.deep.equal([[1], [2]]);
    writes[1]?.end();
    await waiting;
    const last = batcher.add(3);
    await turn();
    expect(batches()).to.deep.equal([[1], [2], [3]]);
    writes[2]?.end();
    await last;
  });

  it('writes batches of at most maxSize items, and no more of them at once than concurrency allows', async () => {
    const { batcher, writes, batches } = start({ maxSize: 2, concurrency: 2 });
    const all = [1, 2, 3, 4, 5].map((item) => batcher.add(item));
    await turn();
    expect(batches()).to.deep.equal([
      [1, 2],
      [3, 4],
    ]);
    writes[1]?.end();
    await all[3];
    writes[0]?.end();
    writes[2]?.end();
    await Promise.all(all);

    expect(batches()[2]).to.deep.equal([5]);
  });

  it('fails the callers of one batch when its write fails, and goes on with the next', async () => {
    const { batcher, writes } = start({ maxSize: 2 });
    const outcomes = Promise.allSettled([1, 2, 3].map((item) => batcher.add(item)));
    await turn();
    writes[0]?.fail(new Error('no primary'));
    await turn();
    writes[1]?.end();

    expect((await outcomes).map(({ status }) => status)).to.deep.equal(['rejected', 'rejected', 'fulfilled']);
  });

  it('times out a write that never ends, and goes on with the next', async () => {
    const { batcher, writes, batches } = start({ timeout: 1_000 });
    const lost = batcher.add(1).catch((error) => error.message);
    await turn();
    const next = batcher.add(2);
    expect(await lost).to.equal('the database has not answered within 1 s');
    await turn();
    expect(batches()).to.deep.equal([[1], [2]]);
    writes[1]?.end();
    expect(await next).to.equal('result 2');
  });

  it('does not write items whose deadline has passed when their turn comes', async () => {
    const deadlines = new Map<number, number>();
    const never = Number.POSITIVE_INFINITY;
    const { batcher, writes, batches } = start({ maxSize: 2, until: (item) => deadlines.get(item) ?? never });
    const first = batcher.add(1);
    await turn();
    const late = performance.now() + 20;
    deadlines
      .set(2, late)
      .set(4, late)
      .set(5, late + 60_000);
    const calls = [batcher.add(2), batcher.add(3), batcher.add(4), batcher.add(5)];
    const settled = Promise.allSettled(calls);
    while (performance.now() < late) await turn();
    writes[0]?.end();
    await first;
    await turn();
    writes[1]?.end();

    const outcomes = await settled;
    expect(batches()).to.deep.equal([[1], [3, 5]]);
    expect(outcomes.map(({ status }) => status)).to.deep.equal(['rejected', 'fulfilled', 'rejected', 'fulfilled']);
    expect((outcomes[0] as PromiseRejectedResult).reason)
      .to.be.an('error')
      .with.property('name', 'TimeoutError');
  });

  it('goes on after all waiting items missed their deadline', async () => {
    const deadline = performance.now();
    const { batcher, writes } = start({ until: (item) => (item === 1 ? deadline : Number.POSITIVE_INFINITY) });
    const late = batcher.add(1);
    await late.then(
      () => expect.fail('it was late'),
      () => {},
    );
    const next = batcher.add(2);
    await turn();
    writes[0]?.end();
    expect(await next).to.equal('result 2');
  });
});

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

  it('because of the database is not retried for each item, and fails for those not yet stored', async () => {
    const gone = new TimeoutError('gone');
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

  it('is told from the second try on that it may already have been made', async () => {
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
});

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
        expect(isItemFailure(error), String(error).slice(0, 100)).to.equal(true);
        const logged: unknown[] = [];
        createSetAsideLog({ error: (_, fields) => void logged.push(fields?.reason) }, 'set aside')(error);
        expect(logged).to.have.length(1);
        expect(logged[0]).to.match(/^\w+( \w+)?$/);
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
      const givenUp = new mongo.MongoBulkWriteError(new TimeoutError('none') as never, {} as never);
      expect(isItemFailure(givenUp)).to.equal(false);
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
