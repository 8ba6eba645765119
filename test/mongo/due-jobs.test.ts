import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { DueJobs, type JobsDb } from '../../src/mongo/agenda.ts';
import { freshDatabase } from '../support/mongo.ts';

describe('Jobs that are due', () => {
  let connection: Connection;
  let drop: () => Promise<void>;
  let told: number;
  let jobs: ReturnType<JobsDb['collection']>;
  const channel = {
    async publish() {
      told += 1;
    },
  };

  beforeEach(async () => {
    ({ connection, drop } = await freshDatabase());
    told = 0;
    jobs = connection.getClient().db(connection.name).collection('jobs');
  });
  afterEach(() => drop());

  const asking = (due: DueJobs) =>
    async function ask() {
      const now = Date.now();
      const job = await due.next({ owner: 'wrk_1', nextScanAt: new Date(now), lockDeadline: new Date(now - 5_000) });
      return job?.name;
    };

  it('are handed out one by one before the next query', async () => {
    const due = { name: 'one', priority: 0, nextRunAt: new Date(0), lockedAt: null, data: {} };
    await jobs.insertMany([{ ...due }, { ...due }, { ...due }]);
    const ask = asking(new DueJobs(jobs, 'one', channel));

    expect([await ask(), await ask(), await ask()]).to.deep.equal(['one', 'one', 'one']);
    await jobs.insertOne({ ...due });
    expect(told).to.equal(0);
    expect(await ask(), 'after the last').to.equal(undefined);
    expect(told).to.equal(1);
    expect(await ask(), 'asked again').to.equal('one');
  });

  it('are left alone until they are due, and then handed out', async () => {
    const dueIn = (ms: number) => jobs.insertOne({ name: 'one', priority: 0, nextRunAt: new Date(Date.now() + ms) });
    await dueIn(30_000);
    const ask = asking(new DueJobs(jobs, 'one', channel));
    expect(await ask()).to.equal(undefined);
    expect(await jobs.countDocuments({ lockedAt: { $ne: null } })).to.equal(0);
    await dueIn(0);

    expect([await ask(), await ask()]).to.deep.equal(['one', undefined]);
  });
});
