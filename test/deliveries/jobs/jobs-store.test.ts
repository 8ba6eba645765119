import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createJobs, type Jobs, jobIndexes } from '../../../src/deliveries/jobs.ts';
import { buildIndexes } from '../../support/database/indexes.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

const ref = (n: number, attempt = 1) => ({ deliveryId: `dlv_${n}`, webhookId: `wh_${n}`, userId: 'usr_1', attempt });
/** The beginning of a second of the future. */
const inSeconds = (seconds: number) => Math.ceil(Date.now() / 1_000 + seconds) * 1_000;

describe('Jobs', () => {
  const appName = `jobs-${process.pid}`;
  let connection: Connection;
  let opened: Jobs[];
  let looks: number;
  const collection = () => connection.collection('gateway_jobs');
  const stored = () => collection().find().sort({ nextRunAt: 1 }).toArray();

  function open(owner = 'wrk_1'): Jobs {
    const jobs = createJobs({
      connection,
      owner,
      collectionPrefix: 'gateway_',
      lookAhead: 850,
      upkeepInterval: 50,
      logger: silentLogger,
    });
    opened.push(jobs);
    return jobs;
  }

  beforeEach(async () => {
    connection = await mongoose.createConnection(freshUri(), { appName, monitorCommands: true }).asPromise();
    opened = [];
    looks = 0;
    await buildIndexes(connection, jobIndexes('gateway_'));
  });
  afterEach(async () => {
    await Promise.all(opened.map((jobs) => jobs.stop()));
    await connection.dropDatabase();
    await connection.close();
  });

  const look = () => {
    looks += 1;
  };
  const none = () => until(async () => (await stored()).length === 0);

  /** The commands on the collection that write, from now on. */
  function writes(): string[] {
    const names: string[] = [];
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      if (command[commandName] === 'gateway_jobs' && commandName !== 'find') names.push(commandName);
    });
    return names;
  }

  it('are one for all attempts of a second, at its beginning, named after the first', async () => {
    const jobs = open();
    const [first, second] = [inSeconds(60), inSeconds(61)];
    const sent = writes();
    await jobs.schedule(ref(0), new Date(first + 700));
    await Promise.all(Array.from({ length: 100 }, (_, n) => jobs.schedule(ref(n), new Date(first + n * 9))));
    await Promise.all([1, 2].map((attempt) => jobs.schedule(ref(1, attempt), new Date(second + 999))));

    const found = (await stored()).map(({ name, data, nextRunAt }) => ({ name, data, nextRunAt }));
    expect(found).to.deep.equal([
      { name: 'delivery attempt', data: ref(0), nextRunAt: new Date(first) },
      { name: 'delivery attempt', data: ref(1), nextRunAt: new Date(second) },
    ]);
    expect(sent).to.have.length(2);
  });

  it('that nobody has run for long begin to run at once, however many they are; those overdue for a minute are removed', async () => {
    const at = (secondsAgo: number) => new Date(Date.now() - secondsAgo * 1_000);
    const job = (n: number, secondsAgo: number) => ({
      ...{
        name: 'delivery attempt',
        type: 'normal',
        priority: 0,
        data: ref(n),
        nextRunAt: at(secondsAgo),
        lockedAt: null,
      },
    });
    await collection().insertMany(Array.from({ length: 4_000 }, (_, n) => job(n, n % 2 === 0 ? 10 : 3_600)));
    const sent = writes();
    await open().start(look);
    await until(() => looks > 0);
    expect(await collection().countDocuments({ nextRunAt: { $lt: at(60) } })).to.equal(0);
    // Agenda locks no more of them than it may before it runs one
    expect(sent.filter((command) => command === 'findAndModify').length).to.be.at.most(150);
  });

  it('of a second are not stored again by another process, and stay at their time', async () => {
    const at = inSeconds(60);
    await open().schedule(ref(1), new Date(at));
    await open('wrk_2').schedule(ref(2), new Date(at + 500));

    expect((await stored()).map(({ data, nextRunAt }) => [data.deliveryId, Number(nextRunAt)])).to.deep.equal([
      ['dlv_1', at],
    ]);
  });

  it('have a process look, and are removed then, by another process than the one that stored them too', async () => {
    const [publisher, worker] = [open(), open('wrk_2')];
    const at = inSeconds(0);
    await publisher.schedule(ref(1), new Date(at));
    await worker.start(look);
    await until(() => looks > 0);
    expect(Date.now()).to.be.at.least(at);
    await none();

    expect(looks).to.equal(1);
  });

  it('of an earlier version, one for each attempt, are run and removed', async () => {
    const now = new Date();
    const old = (n: number) => ({
      name: 'delivery attempt',
      type: 'normal',
      priority: 0,
      nextRunAt: now,
      data: ref(n),
    });
    await collection().createIndex({ 'data.deliveryId': 1, 'data.attempt': 1 }, { name: 'ofAttempt', unique: true });
    await collection().insertMany([1, 2, 3].map(old));
    const jobs = open();
    await jobs.schedule(ref(4), new Date(inSeconds(60)));
    await jobs.start(look);
    await until(async () => (await stored()).length === 1);

    expect(looks).to.equal(3);
    expect((await stored())[0]?.data).to.deep.equal(ref(4));
  });

  it('that a dead process had locked are run by another within seconds', async () => {
    const jobs = open();
    await jobs.schedule(ref(1), new Date());
    const lockedAt = new Date(Date.now() - 6_000);
    await collection().updateMany({}, { $set: { lockedAt, lastModifiedBy: 'wrk_dead' } });
    await jobs.start(look);
    await until(() => looks > 0);
    await none();

    expect(looks).to.equal(1);
  });

  it('that ran and could not be removed are removed later', async () => {
    const jobs = open();
    const done = { name: 'delivery attempt', data: ref(1), nextRunAt: null, lockedAt: null };
    await collection().insertMany([done, { ...done, data: ref(2), lockedAt: new Date() }]);
    await jobs.start(look);
    await until(async () => (await stored()).length === 1);

    expect((await stored())[0]?.data).to.deep.equal(ref(2));
  });

  it('are left to others by a process that stops, and do not end it if they cannot be unlocked', async () => {
    const other = open('wrk_2');
    for (const failing of [false, true]) {
      await collection().deleteMany({});
      const jobs = open();
      const at = inSeconds(1);
      await jobs.schedule(ref(1), new Date(at));
      await jobs.start(look);
      await until(async () => (await stored())[0]?.lockedAt);
      const data = { appName, failCommands: ['update'], errorCode: 11_602 };
      const admin = connection.getClient().db('admin');
      const fail = (mode: string) => admin.command({ configureFailPoint: 'failCommand', mode, data });
      if (failing) await fail('alwaysOn');
      await jobs.stop();
      await fail('off');
      expect(Boolean((await stored())[0]?.lockedAt)).to.equal(failing);
    }
    const before = looks;
    await other.start(look);
    await until(() => looks > before);
    await none();
  });

  it('are stored after the process has stopped, for what it still records', async () => {
    const jobs = open();
    await jobs.start(look);
    await jobs.stop();
    await jobs.schedule(ref(1), new Date(inSeconds(60)));

    expect(await stored()).to.have.length(1);
  });

  it("touch nothing of a host's own Agenda in the same collection", async () => {
    const theirs = { name: 'send report', type: 'normal', data: {}, nextRunAt: null, lockedAt: null };
    await collection().insertMany([{ ...theirs }, { ...theirs, nextRunAt: new Date(0) }]);
    const jobs = open();
    await jobs.schedule(ref(1), new Date());
    await jobs.start(look);
    await until(async () => (await stored()).length === 2);

    expect((await stored()).map(({ name, lockedAt }) => [name, lockedAt])).to.deep.equal([
      ['send report', null],
      ['send report', null],
    ]);
  });
});
