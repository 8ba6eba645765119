import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import type { AttemptRef } from '../../src/deliveries/attempt-ref.ts';
import { createJobsBackend } from '../../src/deliveries/jobs-backend.ts';
import { freshUri } from '../support/mongo.ts';

describe('the storage of jobs', () => {
  const appName = `jobs-${process.pid}`;
  let connection: Connection;

  before(async () => {
    connection = await mongoose.createConnection(freshUri(), { appName }).asPromise();
  });
  after(async () => {
    await connection.dropDatabase();
    await connection.close();
  });

  it('never rejects an unlock, which Agenda would let end the process', async () => {
    const db = connection.getClient().db(connection.name);
    const { repository } = createJobsBackend(db, 'jobs');
    await repository.connect();
    const job = { _id: new mongoose.Types.ObjectId(), name: 'delivery attempt', lockedAt: new Date() };
    await db.collection('jobs').insertOne({ ...job, nextRunAt: new Date() });
    const failing = (mode: 'off' | 'alwaysOn') =>
      connection
        .getClient()
        .db('admin')
        .command({
          configureFailPoint: 'failCommand',
          mode,
          data: { appName, failCommands: ['update'], errorCode: 11_602 },
        });
    await failing('alwaysOn');
    try {
      await repository.unlockJob(job as unknown as Parameters<typeof repository.unlockJob>[0]);
    } finally {
      await failing('off');
    }
    expect((await db.collection('jobs').findOne({ _id: job._id }))?.lockedAt).to.deep.equal(job.lockedAt);
  });

  it('has removed what nobody needs once it is quiet, though that waited for others', async () => {
    const db = connection.getClient().db(connection.name);
    const { store, quiesce } = createJobsBackend(db, 'quiet');
    const bells = [1, 2, 3].map((n) => ({ deliveryId: `dlv_${n}`, webhookId: 'wh_1', attempt: 1 }));
    const nextRunAt = new Date();
    await Promise.all(bells.map((data) => store.insert({ name: 'delivery attempt', data, nextRunAt })));
    const [first, second, third] = bells as [AttemptRef, AttemptRef, AttemptRef];
    await Promise.all([store.removeFor(first), store.removeFor(second)]);
    void store.removeFor(third);
    await quiesce();

    expect(await db.collection('quiet').countDocuments()).to.equal(0);
  });
});
