import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createNetwork } from '../../faults/cluster/network.ts';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { type Deliveries, openDeliveries, type StoredDeliveries, type StoredDelivery } from './harness.ts';
import { pendingDelivery } from './pending-delivery.ts';

const delivery = pendingDelivery('dlv_1');

describe('A claim that the database has written, and not confirmed in time', () => {
  const appName = `unanswered-claims-${process.pid}`;
  /** Milliseconds. */
  const lease = 60;
  let connection: Connection;
  let processes: Deliveries;
  let deliveries: StoredDeliveries;

  function failing(mode: 'off' | 'alwaysOn' | { times: number }, data: object = {}): Promise<unknown> {
    const command = { configureFailPoint: 'failCommand', mode, data: { appName, failCommands: ['update'], ...data } };
    return connection.getClient().db('admin').command(command);
  }

  async function tryToClaim(owner: string, given: { at?: Deliveries; lease?: number } = {}): Promise<string> {
    const claims = (given.at ?? processes).claims(owner, given.lease ?? lease);
    const made = claims.claim({ deliveryId: delivery._id, attempt: delivery.attempt });
    return made.then((claim) => (claim ? 'claimed' : 'not claimed')).catch(() => 'unconfirmed');
  }

  /** What is stored, once the delivery may be claimed. */
  async function free(): Promise<Pick<StoredDelivery, 'starts'>> {
    for (;;) {
      const found = await deliveries.findOne({ $expr: { $lte: ['$claimableAt', '$$NOW'] } }).lean();
      if (found) return found;
    }
  }

  before(async () => {
    connection = await mongoose.createConnection(freshUri(), { appName }).asPromise();
    processes = openDeliveries(connection);
    ({ deliveries } = processes);
    await deliveries.createIndexes();
  });
  beforeEach(async () => {
    await failing('off');
    await deliveries.deleteMany({});
    await deliveries.create(delivery);
  });
  after(async () => {
    await failing('off');
    await connection.dropDatabase();
    await connection.close();
  });

  const writeConcernError = { code: 64, errmsg: 'waiting for replication timed out' };
  const faults: [string, object, string][] = [
    ['no majority confirms it', { writeConcernError }, 'unconfirmed'],
    ['it is confirmed when its lease has ended', { blockConnection: true, blockTimeMS: 2 * lease }, 'unconfirmed'],
  ];
  for (const [what, fault, outcome] of faults) {
    it(`counts as no start of the attempt, however often it happens: ${what}`, async () => {
      await failing('alwaysOn', fault);
      for (let i = 0; i < 6; i += 1) {
        expect(await tryToClaim('worker')).to.equal(outcome);
        await free();
      }
      expect((await free()).starts).to.equal(0);
    });
  }

  it('counts as no start when another worker has claimed the attempt since, and keeps that start', async () => {
    const uri = new URL(freshUri());
    const network = createNetwork();
    uri.host = await network.addMember(0, Number(uri.port));
    uri.pathname = `/${connection.name}`;
    uri.searchParams.delete('replicaSet');
    uri.searchParams.set('directConnection', 'true');
    const slow = await mongoose.createConnection(uri.href).asPromise();
    try {
      const at = openDeliveries(slow);
      // the connection is open by then
      await at.deliveries.findOne();
      const answer = network.inject({ action: 'hold', way: 'down' });
      const late = tryToClaim('slow', { at });
      await until(async () => (await free()).starts !== 0);
      expect(await tryToClaim('worker', { lease: 60_000 })).to.equal('claimed');
      answer();
      expect(await late).to.equal('unconfirmed');
      expect(await deliveries.findOne().lean()).to.deep.include({ starts: 1 });
    } finally {
      await slow.close();
      await network.close();
    }
  });
});
