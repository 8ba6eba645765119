import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createJobs, type Jobs, jobIndexes } from '../../../src/deliveries/jobs.ts';
import { buildIndexes } from '../../support/database/indexes.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

const ref = (n: number, attempt = 1) => ({ deliveryId: `dlv_${n}`, webhookId: `wh_${n}`, userId: 'usr_1', attempt });

describe('Jobs', () => {
  let connection: Connection;
  let jobs: Jobs;
  let woken: string[];
  const stored = () => connection.collection('gateway_jobs').find().sort({ 'data.deliveryId': 1 }).toArray();

  beforeEach(async () => {
    connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    woken = [];
    jobs = createJobs({
      connection,
      owner: 'wrk_1',
      collectionPrefix: 'gateway_',
      logger: silentLogger,
    });
    await buildIndexes(connection, jobIndexes('gateway_'));
    await jobs.init();
  });
  afterEach(async () => {
    await jobs.stop();
    await connection.dropDatabase();
    await connection.close();
  });

  /** Each attempt is of a webhook of its own, which tells them apart when they wake. */
  const wake = ({ webhookId }: { readonly webhookId: string }) => void woken.push(webhookId);

  /** The commands on the collection, from now on. */
  function commands(): string[] {
    const names: string[] = [];
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      if (command[commandName] === 'gateway_jobs') names.push(commandName);
    });
    return names;
  }

  it('are stored, locked and removed many at a time', async function () {
    // a process that the machine keeps waiting shares each write among fewer: the least of three bursts counts
    this.retries(2);
    const refs = Array.from({ length: 100 }, (_, n) => ref(n));
    const names = commands();
    await Promise.all(refs.map((attempt) => jobs.schedule(attempt, 0)));
    expect(names).to.deep.equal(['update']);
    await jobs.start(wake);
    await until(async () => (await stored()).length === 0);
    const writes = names.filter((name) => name !== 'find');

    expect(woken.sort()).to.deep.equal(refs.map(({ webhookId }) => webhookId).sort());
    expect(writes.length, writes.join(' ')).to.be.below(20);
  });

  it('are moved, not stored twice, when an attempt already has one', async () => {
    await Promise.all([ref(1), ref(2)].map((attempt) => jobs.schedule(attempt, 60_000)));
    await Promise.all([ref(1), ref(1, 2)].map((attempt) => jobs.schedule(attempt, 120_000)));
    const found = (await stored()).map(({ data, nextRunAt }) => {
      return [data.deliveryId, data.attempt, Math.round((nextRunAt - Date.now()) / 60_000)];
    });

    expect(found).to.have.deep.members([
      ['dlv_1', 1, 2],
      ['dlv_1', 2, 2],
      ['dlv_2', 1, 1],
    ]);
  });

  it('are removed with their delivery, whatever their attempt', async () => {
    await Promise.all([ref(1, 2), ref(1, 3), ref(2)].map((attempt) => jobs.schedule(attempt, 60_000)));
    await jobs.remove('dlv_1');

    expect((await stored()).map(({ data }) => data.deliveryId)).to.deep.equal(['dlv_2']);
  });

  it('name the webhook and its account when they wake the process', async () => {
    const heard: unknown[] = [];
    await jobs.schedule(ref(1), 0);
    await jobs.start((webhook) => heard.push(webhook));
    await until(() => heard.length > 0);

    expect(heard).to.have.length(1);
    expect(heard[0]).to.include({ webhookId: 'wh_1', userId: 'usr_1' });
  });

  it('that a dead process had locked are run by another within seconds', async () => {
    await jobs.schedule(ref(1), 0);
    const lockedAt = new Date(Date.now() - 6_000);
    await connection.collection('gateway_jobs').updateMany({}, { $set: { lockedAt, lastModifiedBy: 'wrk_dead' } });
    await jobs.start(wake);
    await until(() => woken.length > 0);

    expect(woken).to.deep.equal(['wh_1']);
  });

  it('are run on time by another process than the one that stored them', async () => {
    await jobs.schedule(ref(1), 1_000);
    const due = Number((await stored())[0]?.nextRunAt);
    const rungAt: number[] = [];
    const other = createJobs({
      connection,
      owner: 'wrk_2',
      collectionPrefix: 'gateway_',
      logger: silentLogger,
    });
    await other.start(() => rungAt.push(Date.now()));
    await until(() => rungAt.length > 0);
    await other.stop();

    // it looks again only after five seconds
    expect(rungAt[0]).to.be.within(due, due + 3_500);
  });
});
