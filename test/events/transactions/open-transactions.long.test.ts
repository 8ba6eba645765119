import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { freshDatabase } from '../../support/mongo.ts';
import { forkCompiled } from '../../support/processes/compiled-script.ts';
import { startEvents, type TestEvents } from '../harness.ts';

const script = fileURLToPath(new URL('./transaction-process.ts', import.meta.url));
const lease = 1_000;
/** Of a process that must renew it in time, even if it stands still for two seconds. Milliseconds. */
const longLease = 3_000;

describe('a transaction whose process is killed', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let connection: Connection;
  let owners: TestEvents['owners'];
  let events: TestEvents;
  let child: ChildProcess | undefined;

  beforeEach(async () => {
    database = await freshDatabase();
    ({ connection } = database);
    events = await startEvents(connection, lease);
    ({ owners } = events);
    await connection.collection('accounts').insertOne({ name: 'usr_1', balance: 100 });
  });
  afterEach(async () => {
    child?.kill('SIGKILL');
    child = undefined;
    await events.close();
    await database.drop();
  });

  async function startOther(itsLease = lease): Promise<ChildProcess> {
    child = await forkCompiled(script, { uri: database.uri, lease: itsLease });
    await once(child, 'message');
    return child;
  }

  const balance = async () => (await connection.collection('accounts').findOne({ name: 'usr_1' }))?.balance;
  /** Resolves with the owner records while its own transaction was open: a process without transactions removes its record. */
  const spend = () =>
    events.transaction(async (session) => {
      await connection.collection('accounts').updateOne({ name: 'usr_1' }, { $inc: { balance: -1 } }, { session });
      return owners.find().lean();
    });

  it("is rolled back within 20 seconds, not only after the server's limit of one minute", async () => {
    (await startOther()).kill('SIGKILL');
    const killed = performance.now();
    const dead = await owners.findOne().lean();
    const stored = await spend();
    const took = performance.now() - killed;
    expect(took).to.be.below(20_000);
    expect(await balance()).to.equal(99);
    const others = stored.filter(({ _id }) => _id !== dead?._id);
    expect(others).to.have.length(1);
    expect(others[0]?.until).to.be.above(dead?.until as Date);
  });

  it('is rolled back even if its process was late, and was killed before it renewed its record', async () => {
    // it renews its record too late: for this test, not at all
    const late = await startOther(120_000);
    await owners.updateMany({}, [{ $set: { until: { $subtract: ['$$NOW', 1] } } }], { updatePipeline: true });
    await spend();
    expect(await balance()).to.equal(99);
    // its transaction has been ended, and runs again
    late.send('go on');
    await once(late, 'message');
    late.kill('SIGKILL');
    const killed = performance.now();
    await spend();
    expect(performance.now() - killed).to.be.below(20_000);
    expect(await balance()).to.equal(98);
  });

  it('soon stops blocking writes outside of transactions too', async () => {
    (await startOther()).kill('SIGKILL');
    const plain = connection.collection('accounts').updateOne({ name: 'usr_1' }, { $inc: { balance: -2 } });
    await Promise.all([plain, spend()]);
    expect(await balance()).to.equal(97);
  });

  it('is not rolled back while its process lives, however long it takes', async () => {
    await startOther(longLease);
    // shows that a lease alone ends no transaction
    await sleep(2 * longLease);
    const spending = spend();
    // shows that nothing more happens
    await sleep(lease);
    expect(await balance()).to.equal(100);
    child?.kill('SIGKILL');
    await spending;
    expect(await balance()).to.equal(99);
  });

  it('leaves no owner record behind when its process closes instead', async () => {
    for (const stored of await Promise.all([spend(), spend(), spend()])) expect(stored).to.have.length(1);
    await events.close();
    expect(await owners.countDocuments()).to.equal(0);
    await spend();
    // shows that nothing more happens
    await sleep(lease);
    expect(await owners.countDocuments()).to.equal(0);
  });
});
