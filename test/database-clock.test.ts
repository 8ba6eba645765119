import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { createDatabaseClock } from '../src/database-clock.ts';
import { freshDatabase } from './support/mongo.ts';

/** A connection to a server whose clock is wrong by so many milliseconds. */
function serverWith(offset: number) {
  let asked = 0;
  const admin = {
    async command() {
      asked += 1;
      return { localTime: new Date(Date.now() + offset) };
    },
  };
  const connection = { getClient: () => ({ db: () => admin }) } as unknown as Connection;
  return { connection, asked: () => asked };
}

describe('The database’s clock', () => {
  it('is the server’s, however wrong the one here is, and is asked for once by many', async () => {
    const { connection, asked } = serverWith(900_000);
    const clock = createDatabaseClock(connection);
    const times = await Promise.all(Array.from({ length: 50 }, () => clock.now()));
    times.push(await clock.now());

    for (const time of times) expect(time.getTime() - Date.now()).to.be.within(899_000, 900_000);
    expect(asked()).to.equal(1);
  });

  it('is asked for again when the clock here was set, or the machine slept', async () => {
    const { connection, asked } = serverWith(0);
    const clock = createDatabaseClock(connection);
    await clock.now();
    const { now } = Date;
    try {
      Date.now = () => now() + 60_000;
      await clock.now();
    } finally {
      Date.now = now;
    }

    expect(asked()).to.equal(2);
  });

  it('is never ahead of what the database itself says', async () => {
    const database = await freshDatabase();
    const clock = createDatabaseClock(database.connection);
    for (let i = 0; i < 10; i += 1) {
      const time = await clock.now();
      const asked = database.connection.db?.aggregate([{ $documents: [{}] }, { $project: { now: '$$NOW' } }]);
      const answer = await asked?.next();
      expect(time.getTime()).to.be.at.most(Number(answer?.now));
    }
    await database.drop();
  });
});
