import { createRequire } from 'node:module';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { type Connection, mongo } from 'mongoose';
import { storeInFreeSlot } from '../../src/mongo/free-slot.ts';
import { TimeoutError } from '../../src/mongo/periodic.ts';
import { isUnavailable } from '../../src/mongo/unavailable.ts';
import { duplicatesIn, isDuplicateKey, persist } from '../../src/mongo/writes.ts';
import { silentLogger } from '../support/logger.ts';
import { freshDatabase } from '../support/mongo.ts';

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

describe('The outcome of an attempt', () => {
  const waits = [1, 1, 1];

  function failing(error: Error, times: number) {
    let tries = 0;
    return async () => {
      tries += 1;
      if (tries <= times) throw error;
      return tries;
    };
  }
  const unavailable = new TimeoutError('no answer');

  it('is recorded after an outage that outlasts every wait, so that the attempt is not made again', async () => {
    expect(await persist(failing(unavailable, 20), { logger: silentLogger, waits })).to.equal(21);
  });

  it('is given up when it cannot be recorded for a reason other than an outage', async () => {
    const error = await persist(failing(new Error('a bug'), 20), { logger: silentLogger, waits }).catch(
      (reason) => reason,
    );
    expect(error).to.have.property('message', 'a bug');
  });

  it('gets as many retries for another error after an outage as without one', async () => {
    const outage = failing(unavailable, 20);
    const other = failing(new Error('interrupted'), 2);
    const logger = silentLogger;
    expect(await persist(() => outage().then(other), { logger, waits })).to.equal(3);
  });

  it('is given up when the gateway has closed', async () => {
    const closed = AbortSignal.timeout(50);
    const never = failing(unavailable, Number.POSITIVE_INFINITY);
    expect(await persist(never, { logger: silentLogger, waits, closed }).catch((reason) => reason)).to.equal(
      unavailable,
    );
  });
});

describe('the slots of an account', () => {
  const full = new Error('no slot is free');

  /** The slot that is given out; `null` if none is free. */
  async function slotBeside(taken: ReadonlySet<number>, count: number): Promise<number | null> {
    let given: number | null = null;
    const store = async (slot: number) => {
      given = slot;
    };
    const failure = await storeInFreeSlot({ count, taken: async () => taken, store, full: () => full }).catch(
      (error: unknown) => error,
    );
    expect(failure).to.equal(given === null ? full : undefined);
    return given;
  }

  it('are given out until none is free', async () => {
    const taken = new Set<number>();
    for (let i = 0; i < 20; i += 1) {
      const slot = await slotBeside(taken, 20);
      expect(slot).to.be.within(0, 19);
      expect(taken.has(slot as number)).to.equal(false);
      taken.add(slot as number);
    }
    expect(await slotBeside(taken, 20)).to.equal(null);
  });

  it('are none when as many are taken as there may be, whatever their numbers', async () => {
    expect(await slotBeside(new Set([0, 7, 8]), 3)).to.equal(null);
    expect(await slotBeside(new Set([0, 7]), 3)).to.be.oneOf([1, 2]);
  });
});

interface ErrorClass {
  readonly name: string;
  readonly prototype: object;
}

/** An error of one of the driver's classes: some are made by the driver's own parts alone. */
function errorOf(errorClass: ErrorClass): unknown {
  return Object.create(errorClass.prototype);
}

/** The driver does not export all of its classes. */
const poolErrors = createRequire(import.meta.url)('mongodb/lib/cmap/errors.js') as Record<string, ErrorClass>;

describe('An error of the driver', () => {
  it('means that the database is unavailable when it is a network error of any class', () => {
    const { MongoNetworkError, MongoNetworkTimeoutError } = mongo;
    const cleared = Object.values(poolErrors).filter(({ prototype }) => prototype instanceof MongoNetworkError);
    expect(cleared).to.have.length(2);
    for (const one of [MongoNetworkError, MongoNetworkTimeoutError, ...cleared]) {
      expect(isUnavailable(errorOf(one)), one.name).to.equal(true);
    }
  });

  it('means that when Node says that the socket is closed, in an error of another realm as in Jest', () => {
    const foreign = runInNewContext("Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })");
    expect(foreign).to.not.be.instanceOf(Error);
    expect(isUnavailable(foreign)).to.equal(true);
  });

  it('does not mean that when it is a parse error, an invalid argument or an error of the server', () => {
    for (const one of [mongo.MongoParseError, mongo.MongoInvalidArgumentError, mongo.MongoServerError]) {
      expect(isUnavailable(errorOf(one)), one.name).to.equal(false);
    }
  });
});
