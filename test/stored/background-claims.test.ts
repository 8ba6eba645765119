import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { UsageRecord } from '../../src/index.ts';
import { SharedReads } from '../../src/mongo/shared-reads.ts';
import { BackgroundService } from '../../src/stored/background.ts';
import { unknownRecord } from '../../src/stored/ended-response.ts';
import { createStoredObjectModel } from '../../src/stored/model.ts';
import { StoredObjectRecords } from '../../src/stored/service.ts';
import type { BackgroundResponse } from '../../src/stored/stored-object.ts';
import { buildIndexes } from '../support/database/indexes.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';

const claimDuration = 300;
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

const batch: BackgroundResponse = {
  id: 'batch_long',
  kind: 'batch',
  userId: 'usr_1',
  upstream: 'one',
  model: 'm',
  background: {
    id: 'use_1',
    requestId: 'req_1',
    userId: 'usr_1',
    keyId: null,
    endpoint: '/batches',
    model: 'm',
    upstream: 'one',
    inputTokens: 10,
    seconds: 0,
    characters: 0,
    startedAt: new Date(),
    firstByteMs: 1,
  },
};

describe('the claim of a poll', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;

  before(async () => {
    database = await freshDatabase();
  });

  after(() => database.drop());

  it('is renewed for as long as the poll takes, so that no other process reads the same output', async () => {
    const objects = createStoredObjectModel(database.connection, 'test_');
    await buildIndexes(database.connection, objects);
    const access = { require() {}, isUnavailable: false, run: <T>(work: () => Promise<T>) => work() };
    const background = { interval: 20, timeout: 60_000 };
    const shared = new SharedReads(database.connection, 0);
    const stored = new StoredObjectRecords({
      objects,
      database: access,
      retentionDays: 1,
      background,
      shared,
      logger: quiet,
    });
    let polls = 0;
    let answer: (record: UsageRecord) => void = () => {};
    const counted: UsageRecord[] = [];
    const service = new BackgroundService({
      objects,
      database: access,
      collectionPrefix: 'test_',
      pollResponse() {
        polls += 1;
        return new Promise<UsageRecord>((resolve) => {
          answer = resolve;
        });
      },
      onCounted: (record) => void counted.push(record),
      interval: 20,
      longestInterval: 100,
      claimDuration,
      logger: quiet,
    });
    await service.init();
    await service.start();
    await stored.add(batch);
    service.started(batch, { admissions: [], usageId: batch.background.id });
    await until(() => polls === 1);

    const isFree = { 'background.dueAt': { $exists: true }, $expr: { $lte: ['$background.dueAt', '$$NOW'] } };
    for (let i = 0; i < 20; i += 1) {
      expect(await objects.countDocuments(isFree)).to.equal(0);
      // four times as long in all as a claim lasts that is not renewed
      await sleep(claimDuration / 5);
    }
    answer(unknownRecord(batch.background));
    await until(() => counted.length === 1);

    expect(polls).to.equal(1);
    await service.close();
  });
});
