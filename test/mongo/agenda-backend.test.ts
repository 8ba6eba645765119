import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createJobsBackend } from '../../src/mongo/agenda.ts';
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

  it('never rejects an unlock, for which Agenda would end the process', async () => {
    const db = connection.getClient().db(connection.name);
    const { repository } = createJobsBackend(db, 'jobs');
    await repository.connect();
    const its = { name: 'delivery attempt', lockedAt: new Date(), lastModifiedBy: '' };
    const job = { _id: new mongoose.Types.ObjectId(), ...its };
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
      await repository.unlockJob(its as unknown as Parameters<typeof repository.unlockJob>[0]);
    } finally {
      await failing('off');
    }
    expect((await db.collection('jobs').findOne({ _id: job._id }))?.lockedAt).to.deep.equal(job.lockedAt);
  });

  /** Disconnects a backend that has locked a job and could not remove it. */
  async function disconnectAfterFailure(collection: string, meanwhile = async () => {}): Promise<void> {
    const db = connection.getClient().db(connection.name);
    const { repository, connect, disconnect } = createJobsBackend(db, collection);
    await connect();
    const now = new Date();
    await db.collection(collection).insertOne({ name: 'delivery attempt', nextRunAt: now, data: {} });
    const job = await repository.getNextJobToRun('delivery attempt', now, new Date(0), now, {
      lastModifiedBy: 'wrk_1',
    });
    const data = { appName, failCommands: ['delete'], errorCode: 11_602 };
    const failPoint = { configureFailPoint: 'failCommand', mode: { times: 1 }, data };
    await connection.getClient().db('admin').command(failPoint);
    const removed = await repository.removeJobs({ id: String(job?._id) }).catch(() => 'failed');
    expect(removed).to.equal('failed');
    await meanwhile();
    await disconnect();
  }

  it('leaves a job that it could not remove to the process that locked it since', async () => {
    const others = connection.getClient().db(connection.name).collection('others');
    const byOthers = { lockedAt: new Date(), lastModifiedBy: 'wrk_2' };
    await disconnectAfterFailure('others', async () => void (await others.updateOne({}, { $set: byOthers })));

    expect(await others.findOne()).to.deep.include(byOthers);
  });

  it('leaves no lock of its own on a job that it could not remove', async () => {
    await disconnectAfterFailure('own');

    const job = await connection.getClient().db(connection.name).collection('own').findOne();
    expect(job).to.include({ lastModifiedBy: 'wrk_1' });
    expect(job).not.to.have.property('lockedAt');
  });

  it('finishes its removals and unlocks the jobs that Agenda has fetched when it disconnects', async () => {
    const db = connection.getClient().db(connection.name);
    const { repository, connect, disconnect } = createJobsBackend(db, 'left');
    await connect();
    const now = new Date();
    const job = (deliveryId: string) => ({
      name: 'delivery attempt',
      type: 'normal' as const,
      priority: 0,
      nextRunAt: now,
      data: { deliveryId },
      unique: { 'data.deliveryId': deliveryId },
    });
    await Promise.all(['dlv_1', 'dlv_2', 'dlv_3'].map((id) => repository.saveJob(job(id), {})));
    await repository.getNextJobToRun('delivery attempt', now, new Date(0), now, { lastModifiedBy: 'wrk_1' });
    expect(await db.collection('left').countDocuments({ lockedAt: { $ne: null } })).to.equal(3);
    void repository.removeJobs({ data: { deliveryId: 'dlv_3' } });
    await disconnect();
    const left = await db.collection('left').find().toArray();

    expect(left.map(({ data }) => data.deliveryId).sort()).to.deep.equal(['dlv_1', 'dlv_2']);
    expect(left.filter(({ lockedAt }) => lockedAt)).to.deep.equal([]);
  });
});
