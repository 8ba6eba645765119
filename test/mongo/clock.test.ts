import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { createDatabaseClock } from '../../src/mongo/clock.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';

/** A connection to a server whose clock is wrong by so many milliseconds, and whose first answer is as long on its way as `late` says. */
function serverWith(offset: number, late = 0) {
  let asked = 0;
  const admin = {
    async command() {
      asked += 1;
      const localTime = new Date(Date.now() + offset);
      if (asked === 1) await setTimeout(late);
      return { localTime };
    },
  };
  const connection = { getClient: () => ({ db: () => admin }) } as unknown as Connection;
  return { connection, asked: () => asked };
}

describe('The database’s clock', () => {
  it('is the server’s, however wrong the local clock is, and many callers share one request', async () => {
    const { connection, asked } = serverWith(900_000);
    const clock = createDatabaseClock(connection);
    const times = await Promise.all(Array.from({ length: 50 }, () => clock.now()));
    times.push(await clock.now());

    for (const time of times) expect(time.getTime() - Date.now()).to.be.within(890_000, 900_000);
    expect(asked()).to.equal(1);
  });

  it('is asked for again when the answer took long, as it does for a process that was stopped meanwhile', async function () {
    // a process that stands still in the second answer too asks a third time, or is behind by as much
    this.retries(2);
    const late = 700;
    const { connection, asked } = serverWith(0, late);
    const time = await createDatabaseClock(connection).now();

    expect(Date.now() - time.getTime()).to.be.below(late / 2);
    expect(asked()).to.equal(2);
  });

  it('is told by a later answer, without waiting for one, once the quickest is too old', async () => {
    let late = 0;
    const admin = {
      async command() {
        const localTime = new Date();
        if (late > 0) await setTimeout(late);
        return { localTime };
      },
    };
    const clock = createDatabaseClock({ getClient: () => ({ db: () => admin }) } as unknown as Connection);
    await clock.now();
    late = 100;
    // longer than a reading is fresh
    await setTimeout(600);
    await clock.now();
    await setTimeout(2 * late);
    const { now } = Date;
    const monotonic = performance.now.bind(performance);
    const later = 9_500;
    try {
      Date.now = () => now() + later;
      performance.now = () => monotonic() + later;
      late = 60_000;
      const time = await Promise.race([clock.now(), setTimeout(1_000, undefined, { ref: false })]);
      expect(Number(time)).to.be.within(Date.now() - 400, Date.now());
    } finally {
      Date.now = now;
      performance.now = monotonic;
    }
  });

  it('is told by the quickest of its answers: a process that is slow to take one is not behind by as much', async () => {
    let late = 0;
    const admin = {
      async command() {
        const localTime = new Date();
        const until = performance.now() + late;
        while (performance.now() < until) await setTimeout(1);
        return { localTime };
      },
    };
    const clock = createDatabaseClock({ getClient: () => ({ db: () => admin }) } as unknown as Connection);
    await clock.now();
    late = 150;
    const behind: number[] = [];
    for (let i = 0; i < 3; i += 1) {
      // longer than a reading is fresh, and than the answer that replaces it takes
      await setTimeout(510);
      await clock.now();
      await setTimeout(200);
      const local = Date.now();
      behind.push(local - (await clock.now()).getTime());
    }
    for (const ms of behind) expect(ms).to.be.within(-1, 100);
  });

  it('is asked for again when the local clock was set or the machine slept', async () => {
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

  it('is followed within a second when it is set', async function () {
    // it measures time, to which a busy machine only adds: the least of three measurements counts
    this.retries(2);
    let offset = -20_000;
    const admin = { command: async () => ({ localTime: new Date(Date.now() + offset) }) };
    const clock = createDatabaseClock({ getClient: () => ({ db: () => admin }) } as unknown as Connection);
    await clock.now();
    offset = 0;
    const set = performance.now();
    await until(async () => Date.now() - (await clock.now()).getTime() <= 1_000);
    expect(performance.now() - set).to.be.below(1_000);
  });

  it('is the new primary’s as soon as one is elected, even if that happens while the clock is read', async () => {
    const election = { current: 'a' };
    const wrongBy: Record<string, number> = { a: -20_000, b: 40_000, c: 60_000 };
    const admin = {
      async command() {
        const localTime = new Date(Date.now() + Number(wrongBy[election.current]));
        if (election.current === 'b') election.current = 'c';
        return { localTime };
      },
    };
    const description = {
      servers: new Map([['one', { type: 'RSPrimary', electionId: null }]]),
      get maxElectionId() {
        const id = election.current;
        return { toHexString: () => id };
      },
    };
    const client = { db: () => admin, topology: { description } };
    const clock = createDatabaseClock({ getClient: () => client } as unknown as Connection);
    expect((await clock.now()).getTime() - Date.now()).to.be.within(-25_000, -20_000);
    election.current = 'b';

    expect((await clock.now()).getTime() - Date.now()).to.be.within(55_000, 60_000);
  });

  it('is available without a wait, and asked for again, while an answer does not come', async function () {
    // it measures time, to which a busy machine only adds: the least of three measurements counts
    this.retries(2);
    let asked = 0;
    const admin = {
      async command() {
        asked += 1;
        if (asked > 1) await new Promise(() => {});
        return { localTime: new Date() };
      },
    };
    const clock = createDatabaseClock({ getClient: () => ({ db: () => admin }) } as unknown as Connection);
    await clock.now();
    const longest = { wait: 0 };
    while (asked < 3) {
      const started = performance.now();
      await clock.now();
      longest.wait = Math.max(longest.wait, performance.now() - started);
      await setTimeout(10);
    }
    expect(longest.wait).to.be.below(500);
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
