import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { UsageRecord } from '../../src/index.ts';
import { BackgroundService } from '../../src/stored/background.ts';
import { unknownRecord } from '../../src/stored/ended-response.ts';
import { createStoredObjectModel } from '../../src/stored/model.ts';
import { PollQueue } from '../../src/stored/poll-queue.ts';
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
    const stored = new StoredObjectRecords({
      objects,
      database: access,
      retentionDays: 1,
      background,
      logger: quiet,
    });
    let polls = 0;
    let answer: (record: UsageRecord) => void = () => {};
    const counted: UsageRecord[] = [];
    const service = new BackgroundService({
      objects,
      database: access,
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
    service.start();
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

/** A queue whose polls end when they are told to. */
function controlled() {
  const ending = new Map<string, () => void>();
  const started: string[] = [];
  const queue = new PollQueue((id) => {
    started.push(id);
    return new Promise((resolve) => {
      ending.set(id, resolve);
    });
  });
  return {
    queue,
    started,
    /** Ends the polls of one account that are under way. */
    async end(prefix: string) {
      for (const [id, resolve] of ending) {
        if (!id.startsWith(prefix)) continue;
        ending.delete(id);
        resolve();
      }
      await new Promise(setImmediate);
    },
  };
}

const add = (queue: PollQueue, userId: string, count: number) => {
  for (let i = 0; i < count; i += 1) queue.add({ id: `${userId}:${i}`, userId });
};
const accountOf = (id: string) => id.split(':')[0];
const of = (started: readonly string[], userId: string) => started.filter((id) => id.startsWith(`${userId}:`)).length;

describe('the responses that a process polls', () => {
  it('of one account with 200 leave half of the places to the others, whose polls start at once', () => {
    const { queue, started } = controlled();
    add(queue, 'usr_many', 200);
    expect(of(started, 'usr_many')).to.equal(16);
    add(queue, 'usr_one', 1);
    expect(of(started, 'usr_one')).to.equal(1);
    for (const other of ['usr_a', 'usr_b']) add(queue, other, 200);
    expect(started.length).to.be.below(32);
    add(queue, 'usr_last', 1);
    expect(of(started, 'usr_last')).to.equal(1);
  });

  it('are polled next for the account with the fewest polls in progress', async () => {
    const { queue, started, end } = controlled();
    for (let i = 0; i < 40; i += 1) add(queue, `usr_${i}`, 3);
    expect(started).to.have.lengthOf(32);
    const first = new Set(started.map(accountOf));
    started.length = 0;
    await end('usr_0:');
    const late = started.map(accountOf);
    expect(late).to.have.lengthOf(3);
    expect(late.filter((account) => first.has(account))).to.deep.equal([]);
    while (started.length < 120 - 32) await end('usr_');
    await end('usr_');
    await queue.done();
  });

  it('are each polled once at a time, and again if they are added meanwhile', async () => {
    const { queue, started, end } = controlled();
    add(queue, 'usr_1', 1);
    add(queue, 'usr_1', 1);
    expect(started).to.deep.equal(['usr_1:0']);
    await end('usr_1');
    expect(started).to.deep.equal(['usr_1:0', 'usr_1:0']);
    await end('usr_1');
    await queue.done();
    expect(started).to.have.lengthOf(2);
  });

  it('are no longer started when the queue closes', async () => {
    const { queue, started, end } = controlled();
    add(queue, 'usr_1', 20);
    queue.close();
    add(queue, 'usr_2', 1);
    await end('usr_1');
    await queue.done();
    expect(started).to.have.lengthOf(16);
  });
});
