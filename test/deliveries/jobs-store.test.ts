import { MongoBackend } from '@agendajs/mongo-backend';
import { Agenda } from 'agenda';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createJobs, type Jobs } from '../../src/deliveries/jobs.ts';
import { freshUri } from '../support/mongo.ts';
import { quiet } from './gateway.ts';

const bell = (n: number, attempt = 1) => ({ deliveryId: `dlv_${n}`, webhookId: 'wh_1', userId: 'usr_1', attempt });

describe('Jobs', () => {
  let connection: Connection;
  let jobs: Jobs;
  let rung: string[];
  const stored = () => connection.collection('gateway_jobs').find().sort({ 'data.deliveryId': 1 }).toArray();

  beforeEach(async () => {
    connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    rung = [];
    jobs = createJobs({
      connection,
      owner: 'wrk_1',
      collection: 'gateway_jobs',
      onBell: ({ deliveryId }) => rung.push(deliveryId),
      logger: quiet,
    });
    await jobs.init();
  });
  afterEach(async () => {
    await jobs.stop();
    await jobs.release();
    await connection.dropDatabase();
    await connection.close();
  });

  it('are stored exactly as Agenda stores its own, so that its tools can read them', async () => {
    await jobs.schedule([bell(1)], 60_000);
    const backend = new MongoBackend({ mongo: connection.db as never, collection: 'stock_jobs', ensureIndex: false });
    const stock = new Agenda({ name: 'wrk_1', backend });
    stock.define('delivery attempt', async () => {});
    await stock.ready;
    await stock.schedule(new Date(), 'delivery attempt', bell(1));
    const [ours] = await stored();
    const [theirs] = await connection.collection('stock_jobs').find().toArray();
    const comparable = { _id: null, nextRunAt: null };

    expect({ ...ours, ...comparable }).to.deep.equal({ ...theirs, ...comparable });
    expect(ours?.nextRunAt).to.be.instanceOf(Date);
  });

  it('are stored, locked and removed many at a time', async () => {
    const commands: string[] = [];
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      if (command[commandName] === 'gateway_jobs') commands.push(commandName);
    });
    const bells = Array.from({ length: 100 }, (_, n) => bell(n));
    await jobs.schedule(bells, 0);
    expect(commands).to.deep.equal(['insert']);
    await jobs.start();
    while ((await stored()).length > 0) await new Promise((resolve) => setTimeout(resolve, 20));
    const writes = commands.filter((name) => name !== 'find');

    expect(rung.sort()).to.deep.equal(bells.map(({ deliveryId }) => deliveryId).sort());
    expect(writes.length, writes.join(' ')).to.be.below(20);
  });

  it('are not stored twice for the same attempt', async () => {
    await jobs.schedule([bell(1), bell(2)], 60_000);
    await jobs.schedule([bell(1), bell(1, 2)], 60_000);

    expect((await stored()).map(({ data }) => [data.deliveryId, data.attempt])).to.have.deep.members([
      ['dlv_1', 1],
      ['dlv_1', 2],
      ['dlv_2', 1],
    ]);
  });

  it('go when their attempt has begun without them, and the job of the next attempt stays', async () => {
    await jobs.schedule([bell(1), bell(1, 2), bell(2)], 60_000);
    await Promise.all([jobs.begun(bell(1)), jobs.begun(bell(2))]);

    expect((await stored()).map(({ data }) => data.attempt)).to.deep.equal([2]);
  });

  it('of attempts that wait for a place are stored together, without those that begin meanwhile, and rung in no hurry', async () => {
    const writes: string[] = [];
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      if (command[commandName] === 'gateway_jobs' && commandName !== 'find') writes.push(commandName);
    });
    await jobs.start();
    for (const n of [1, 2, 3]) jobs.keep([bell(n)]);
    await jobs.begun(bell(2));
    while ((await stored()).length === 0) await new Promise((resolve) => setTimeout(resolve, 20));

    expect((await stored()).map(({ data }) => data.deliveryId)).to.deep.equal(['dlv_1', 'dlv_3']);
    expect(writes).to.deep.equal(['insert']);
    expect(rung).to.deep.equal([]);
  });

  it('of attempts that wait for a place are there when the worker stops', async () => {
    jobs.keep([bell(1)]);
    await jobs.stop();

    expect(await stored()).to.have.length(1);
  });

  it('that a process locked and then died are rung by another within seconds', async () => {
    await jobs.schedule([bell(1)], 0);
    const lockedAt = new Date(Date.now() - 6_000);
    await connection.collection('gateway_jobs').updateMany({}, { $set: { lockedAt, lastModifiedBy: 'wrk_dead' } });
    await jobs.start();
    while (rung.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));

    expect(rung).to.deep.equal(['dlv_1']);
  });
});
