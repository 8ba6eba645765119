import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { ClientSession } from 'mongoose';
import { createOwnerModel, type OwnerDocument } from '../../../src/events/model.ts';
import { OpenTransactions, Transactions } from '../../../src/events/transactions.ts';
import { durableCollection } from '../../../src/mongo/collection.ts';
import { watchedDatabase } from '../../support/commands.ts';
import { buildIndexes } from '../../support/database/indexes.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

describe('the record of open transactions', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let owners: ReturnType<typeof durableCollection<OwnerDocument>>;
  /** Writes of the record that have not been let through yet, the oldest first. */
  let held: (() => void)[];
  let isHolding: boolean;
  let open: OpenTransactions;

  const turn = () => (isHolding ? new Promise<void>((resolve) => held.push(resolve)) : undefined);

  /** The same collection, whose writes wait while `isHolding`. */
  function slowOwners(): typeof owners {
    const updateOne = owners.updateOne.bind(owners);
    const deleteOne = owners.deleteOne.bind(owners);
    return Object.assign(Object.create(owners), {
      async updateOne(...write: Parameters<typeof updateOne>) {
        await turn();
        return updateOne(...write);
      },
      async deleteOne(...write: Parameters<typeof deleteOne>) {
        await turn();
        return deleteOne(...write);
      },
    });
  }

  beforeEach(async () => {
    database = await freshDatabase();
    const model = createOwnerModel(database.connection, 'gateway_');
    await buildIndexes(database.connection, model);
    owners = durableCollection(model);
    held = [];
    isHolding = false;
    const { connection } = database;
    open = new OpenTransactions({ connection, owners: slowOwners(), logger: silentLogger, lease: 60_000 });
  });
  afterEach(async () => {
    isHolding = false;
    for (const letThrough of held) letThrough();
    await open.close();
    await database.drop();
  });

  it('holds a session that begins a transaction while the record is being removed behind a renewal', async () => {
    const [first, second] = await Promise.all([database.connection.startSession(), database.connection.startSession()]);
    await open.enter(first);
    open.leave();
    isHolding = true;
    const renewing = open.enter(second);
    open.leave();
    await until(() => held.length === 1);
    const closing = open.close();
    held.shift()?.();
    await renewing;
    await until(() => held.length === 1);
    const entering = open.enter(first);
    isHolding = false;
    held.shift()?.();
    await Promise.all([closing, entering]);

    expect(await owners.countDocuments({ sessions: first.id?.id as never })).to.equal(1);
    open.leave();
    await Promise.all([first.endSession(), second.endSession()]);
  });

  it('is removed at a later look if it could not be removed when the process had no transactions any more', async () => {
    let failures = 2;
    const failing = Object.assign(Object.create(owners), {
      async deleteOne(...write: Parameters<(typeof owners)['deleteOne']>) {
        failures -= 1;
        if (failures >= 0) throw new Error('the database is away');
        return owners.deleteOne(...write);
      },
    });
    const { connection } = database;
    const idle = new OpenTransactions({ connection, owners: failing, logger: silentLogger, lease: 200 });
    const session = await database.connection.startSession();
    await idle.enter(session);
    expect(await owners.countDocuments()).to.equal(1);
    idle.leave();

    await until(async () => (await owners.countDocuments()) === 0);
    await session.endSession();
    await idle.close();
  });
});

describe('A transaction that its caller no longer waits for', () => {
  const appName = 'given-up';
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let transactions: Transactions;
  let open: OpenTransactions;

  before(async () => {
    database = await watchedDatabase({ appName });
    const { connection } = database;
    const model = createOwnerModel(connection, 'gateway_');
    await buildIndexes(connection, model);
    open = new OpenTransactions({ connection, owners: durableCollection(model), logger: silentLogger });
    transactions = new Transactions(database.connection, open, () => {});
  });
  after(async () => {
    await open.close();
    await database.drop();
  });

  /** Gives up a transaction that does this, while the server answers `killSessions` with an error, and checks what follows before its end. */
  async function giveUp(
    errorCode: number,
    work: (session: ClientSession) => Promise<unknown>,
    check: (answerAgain: () => Promise<unknown>) => Promise<void>,
  ): Promise<void> {
    const admin = database.connection.getClient().db('admin');
    const failing = { configureFailPoint: 'failCommand', data: { appName, failCommands: ['killSessions'], errorCode } };
    const answerAgain = () => admin.command({ ...failing, mode: 'off' });
    await admin.command({ ...failing, mode: 'alwaysOn' });
    let answer = () => {};
    const unanswered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    try {
      const given = transactions.run(async (session) => {
        await work(session);
        await unanswered;
      }, 200);
      expect(await given.catch((error: Error) => error.name)).to.equal('TimeoutError');
      await check(answerAgain);
    } finally {
      await answerAgain();
      answer();
    }
  }

  it('is not asked for again where sessions may not be ended', async () => {
    let asked = 0;
    database.connection.getClient().on('commandStarted', ({ commandName }) => {
      if (commandName === 'killSessions') asked += 1;
    });
    await giveUp(
      323,
      async () => {},
      async () => {
        // longer than between two tries
        await sleep(700);
        expect(asked).to.equal(1);
      },
    );
  });

  it('is rolled back once the database can be asked for it again', async () => {
    const accounts = database.connection.collection<{ _id: string; balance: number }>('accounts');
    await accounts.insertOne({ _id: 'usr_1', balance: 1 });
    await giveUp(
      50,
      (session) => accounts.updateOne({ _id: 'usr_1' }, { $inc: { balance: 1 } }, { session }),
      async (answerAgain) => {
        await answerAgain();
        // as long as the transaction is open, the server lets this write wait
        await accounts.updateOne({ _id: 'usr_1' }, { $inc: { balance: 10 } }, { maxTimeMS: 10_000 });
        expect(await accounts.findOne()).to.include({ balance: 11 });
      },
    );
  });
});
