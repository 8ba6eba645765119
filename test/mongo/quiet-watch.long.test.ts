import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose from 'mongoose';
import type { DeliveryDocument } from '../../src/deliveries/model.ts';
import { createModels } from '../../src/gateway/collections.ts';
import { durableCollection } from '../../src/mongo/collection.ts';
import { createWatch } from '../../src/mongo/watch.ts';
import { type BreakableDatabase, startBreakableDatabase } from '../support/database/breakable-database.ts';
import { silentLogger } from '../support/logger.ts';
import { connectionTimes } from '../support/mongo.ts';

describe('A change stream of deliveries', function () {
  this.timeout(60_000);
  let database: BreakableDatabase;

  before(async () => {
    database = await startBreakableDatabase();
  });
  after(() => database?.stop());

  it('stays open without changes, and recovers when its connection silently drops data', async () => {
    const [connection, beside] = await Promise.all([
      mongoose.createConnection(database.uri, connectionTimes).asPromise(),
      mongoose.createConnection(database.directUri).asPromise(),
    ]);
    const warnings: string[] = [];
    const heard = new Set<string>();
    let broken = 0;
    connection.getClient().on('connectionClosed', ({ reason }) => {
      if (reason === 'error') broken += 1;
    });
    const watch = createWatch<DeliveryDocument>({
      collection: durableCollection(createModels(connection, 'quiet_').deliveries),
      which: { 'fullDocument.lease': null },
      fields: ['webhookId'],
      onStored: ({ webhookId }) => heard.add(webhookId),
      logger: { ...silentLogger, warn: (line) => void warnings.push(line) },
    });
    const store = (webhookId: string) =>
      beside.collection('quiet_deliveries').insertOne({ webhookId, userId: 'usr_1', lease: null });
    async function untilHeard(): Promise<number> {
      const startedAt = performance.now();
      for (let i = 0; ; i += 1) {
        const webhookId = `wh_${startedAt}_${i}`;
        await store(webhookId);
        // by then a change has been heard of, or is missed
        await sleep(100);
        if (heard.has(webhookId)) return performance.now() - startedAt;
      }
    }
    watch.start();
    try {
      await untilHeard();
      // shows that nothing more happens: a quiet connection does not time out
      await sleep(connectionTimes.socketTimeoutMS + 1_500);
      expect(broken).to.equal(0);
      expect(database.proxy.swallowOpen('both', 'pool')).to.be.above(0);
      expect(await untilHeard()).to.be.below(10_000);
      expect(warnings).to.deep.equal([]);
    } finally {
      await watch.close();
      await connection.close();
      await beside.close();
    }
  });
});
