import { InMemoryNotificationChannel } from 'agenda';
import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { createDueJobs, type DueJobs, type JobsDb } from '../../../src/deliveries/jobs.ts';
import { freshDatabase } from '../../support/mongo.ts';

describe('Jobs that are due', () => {
  let connection: Connection;
  let drop: () => Promise<void>;
  let told: number;
  let jobs: ReturnType<JobsDb['collection']>;
  const channel = new InMemoryNotificationChannel();
  channel.publish = async () => {
    told += 1;
  };

  beforeEach(async () => {
    ({ connection, drop } = await freshDatabase());
    told = 0;
    jobs = connection.getClient().db(connection.name).collection('jobs');
  });
  afterEach(() => drop());

  const asking = ({ next }: DueJobs) =>
    async function ask() {
      const now = Date.now();
      const job = await next({ owner: 'wrk_1', nextScanAt: new Date(now), lockDeadline: new Date(now - 5_000) });
      return job?.name;
    };

  it('are handed out one by one before the next query', async () => {
    const due = { name: 'one', priority: 0, nextRunAt: new Date(0), lockedAt: null, data: {} };
    await jobs.insertMany([{ ...due }, { ...due }, { ...due }]);
    const ask = asking(createDueJobs(jobs, 'one', channel));

    expect([await ask(), await ask(), await ask()]).to.deep.equal(['one', 'one', 'one']);
    await jobs.insertOne({ ...due });
    expect(told).to.equal(0);
    expect(await ask(), 'after the last').to.equal(undefined);
    expect(told).to.equal(1);
    expect(await ask(), 'asked again').to.equal('one');
  });

  it('are left alone for the configured delay after their time', async () => {
    const delay = 60_000;
    const dueFor = (ms: number) => jobs.insertOne({ name: 'one', priority: 0, nextRunAt: new Date(Date.now() - ms) });
    await dueFor(delay - 30_000);
    const ask = asking(createDueJobs(jobs, 'one', channel, delay));
    expect(await ask()).to.equal(undefined);
    await dueFor(delay);

    expect([await ask(), await ask()]).to.deep.equal(['one', undefined]);
  });
});
