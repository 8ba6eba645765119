import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { MongoClient } from 'mongodb';
import { type Cluster, startCluster } from './cluster.ts';

describe('the cluster of the fault suite', function () {
  this.timeout(120_000);
  let cluster: Cluster;
  let client: MongoClient;

  before(async () => {
    cluster = await startCluster();
    client = await new MongoClient(cluster.uri, { heartbeatFrequencyMS: 500 }).connect();
  });
  after(async () => {
    await client?.close();
    await cluster?.stop();
  });

  const things = () => client.db().collection<{ _id: string }>('things');

  it('elects another primary when the primary is partitioned from the other members but not from clients', async () => {
    const before = await cluster.primary();
    const isolated = before.index;
    const heal = cluster.network.inject({
      action: 'swallow',
      on: ({ from, to }) => from !== undefined && (from === isolated || to === isolated),
    });
    try {
      for (let now = before; now.index === isolated; now = await cluster.primary()) await sleep(50);
      await things().insertOne({ _id: 'partitioned' }, { writeConcern: { w: 'majority' } });
      const uri = new URL(cluster.uri.replace(/@[^/]+/, `@${before.node.host}`));
      uri.searchParams.delete('replicaSet');
      uri.searchParams.set('directConnection', 'true');
      uri.searchParams.set('readPreference', 'secondaryPreferred');
      const direct = new MongoClient(uri.href);
      expect(await direct.db('gateway').collection('things').countDocuments()).to.equal(0);
      await direct.close();
    } finally {
      heal();
    }
  });

  it('carries out a write whose answer is lost', async () => {
    const uri = `${cluster.uri}&retryWrites=false`;
    const once = await new MongoClient(uri).connect();
    await cluster.primary();
    const loss = cluster.network.loseAnswers(({ collection }) => collection === 'things', 1);
    const outcome = await once
      .db()
      .collection<{ _id: string }>('things')
      .insertOne({ _id: 'unanswered' })
      .catch((error: Error) => error.name);
    loss.stop();
    await once.close();
    expect(outcome).to.match(/^MongoNetwork/);
    expect(await things().countDocuments({ _id: 'unanswered' })).to.equal(1);
  });
});
