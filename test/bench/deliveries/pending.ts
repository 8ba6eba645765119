import mongoose from 'mongoose';
import { Claims } from '../../../src/deliveries/claims.ts';
import { createDueAttempts } from '../../../src/deliveries/due-reads.ts';
import { createDeliveryModel, type DeliveryDocument, type DeliveryModel } from '../../../src/deliveries/model.ts';
import { createDatabaseClock } from '../../../src/mongo/clock.ts';
import { aggregatedRanges } from '../../support/database/aggregated-ranges.ts';
import { silentLogger } from '../../support/logger.ts';
import { median } from '../report.ts';
import { now, type Setup, uriOf } from './setup.ts';

/** What is due at each turn, of each of as many webhooks as the pending ones are of. */
const dueEach = 10;
const webhooks = 20;
const webhookIds = Array.from({ length: webhooks }, (_, i) => `wh_${i}`);
const noEvents = { coll: 'nothing', pipeline: [] };

/** The deliveries of a gateway that runs nowhere, with so many pending for an hour from now and later. */
async function fill(setup: Setup, prefix: string, pending: number): Promise<DeliveryModel> {
  const deliveries = createDeliveryModel(setup.connection, prefix);
  const inAnHour = {
    $dateAdd: { startDate: '$$NOW', unit: 'second', amount: { $add: [3_600, { $mod: ['$n', 36_000] }] } },
  };
  const started = now();
  // made by the database, and indexed afterwards: the quickest way to have a million
  await setup.connection.db
    ?.aggregate([
      { $documents: [{ thousands: { $range: [0, pending / 1_000] } }] },
      { $unwind: '$thousands' },
      { $set: { ones: { $range: [0, 1_000] } } },
      { $unwind: '$ones' },
      { $set: { n: { $add: [{ $multiply: ['$thousands', 1_000] }, '$ones'] } } },
      {
        $project: {
          _id: { $concat: ['dlv_later', { $toString: '$n' }] },
          eventId: { $concat: ['evt_', { $toString: '$n' }] },
          webhookId: { $concat: ['wh_', { $toString: { $mod: ['$n', webhooks] } }] },
          userId: 'usr_1',
          type: 'credits.low',
          test: { $literal: false },
          state: 'pending',
          attempt: { $literal: 2 },
          maxAttempts: { $literal: 6 },
          starts: { $literal: 0 },
          dueAt: inAnHour,
          claimableAt: inAnHour,
          lease: { $literal: null },
          attempts: { $literal: [] },
          createdAt: '$$NOW',
        },
      },
      { $out: deliveries.collection.collectionName },
    ])
    .toArray();
  await deliveries.createIndexes();
  console.error(`  (${pending} pending deliveries made in ${((now() - started) / 1_000).toFixed(1)} s)`);
  return deliveries;
}

function dueNow(turn: number): DeliveryDocument[] {
  const past = new Date(Date.now() - 60_000);
  const common = {
    userId: 'usr_1',
    type: 'credits.low',
    test: false,
    state: 'pending',
    attempt: 1,
    maxAttempts: 6,
  } as const;
  const times = { dueAt: past, claimableAt: past, createdAt: past };
  return webhookIds.flatMap((webhookId) =>
    Array.from({ length: dueEach }, (_, n) => {
      const own = { _id: `dlv_due_${turn}_${webhookId}_${n}`, eventId: `evt_due_${turn}_${n}`, webhookId };
      return { ...own, ...common, ...times, starts: 0, lease: null, attempts: [] };
    }),
  );
}

/** Without the plans that the database has thought of and not taken. */
const chosenOnly = (key: string, value: unknown) => (key === 'rejectedPlans' ? undefined : value);

function sumOf(node: unknown, field: string): number {
  if (typeof node !== 'object' || node === null) return 0;
  const own = Object.entries(node).find(([key]) => key === field)?.[1];
  if (typeof own === 'number') return own;
  return Object.values(node).reduce((sum: number, inner) => sum + sumOf(inner, field), 0);
}

/** Looks and claims as a worker does, and what the database had to read for it. */
async function createClaimant(setup: Setup, prefix: string, pending: number) {
  const deliveries = await fill(setup, prefix, pending);
  const due = createDueAttempts(deliveries);
  const claims = new Claims({
    deliveries,
    clock: createDatabaseClock(setup.connection),
    concurrency: 100,
    owner: 'wrk_1',
    lease: 60_000,
    renewInterval: 20_000,
    retention: 60_000,
    onAttempt() {},
    onFailed() {},
    onEnded() {},
    logger: silentLogger,
  });
  let turns = 0;

  async function claimAll(): Promise<void> {
    const { webhookIds: found } = await due.look(null, 1_000, noEvents);
    const refs = await due.ofWebhooks(new Map(found.map((webhookId) => [webhookId, dueEach])));
    const claimed = (await Promise.all(refs.map((ref) => claims.claim(ref)))).filter((claim) => claim !== null);
    for (const claim of claimed) claims.drop(claim);
    if (claimed.length !== webhooks * dueEach) throw new Error('not all were claimed');
  }

  return {
    /** Milliseconds until everything that is due has been found and claimed, and index keys read to find it. */
    async turn(): Promise<{ ms: number; keys: number }> {
      turns += 1;
      await deliveries.collection.insertMany(dueNow(turns) as never[]);
      const keys = await keysExamined();
      const started = now();
      await claimAll();
      const ms = now() - started;
      await deliveries.collection.deleteMany({ attempt: 1 });
      return { ms, keys };
    },
  };

  async function keysExamined(): Promise<number> {
    const uri = uriOf(setup.mongo, setup.connection.name);
    const watched = await mongoose.createConnection(uri, { monitorCommands: true }).asPromise();
    const due = createDueAttempts(createDeliveryModel(watched, prefix));
    const pipelines = await aggregatedRanges(watched, async () => {
      await due.look(null, 1_000, null);
      await due.ofWebhooks(new Map(webhookIds.map((webhookId) => [webhookId, dueEach])));
    });
    await watched.close();
    let keys = 0;
    for (const pipeline of pipelines) {
      const plan = await deliveries.collection.aggregate(pipeline as never).explain('executionStats');
      if (/"(COLLSCAN|SORT)"/.test(JSON.stringify(plan, chosenOnly))) throw new Error('claiming scanned or sorted');
      keys += sumOf(plan, 'totalKeysExamined');
    }
    return keys;
  }
}

/** Claiming what is due, in turn where few and where many more are pending for later. */
export async function pendingDeliveries(setup: Setup, many: number) {
  const few = await createClaimant(setup, 'few_', 1_000);
  const lots = await createClaimant(setup, 'many_', many);

  /** @throws when the database reads more keys where more are pending */
  return async function measure(turns: number) {
    const times: { few: number[]; many: number[] } = { few: [], many: [] };
    let keys = 0;
    for (let i = 0; i < turns; i += 1) {
      const [a, b] = [await few.turn(), await lots.turn()];
      if (a.keys !== b.keys) throw new Error(`${a.keys} index keys were read among 1,000, ${b.keys} among ${many}`);
      times.few.push(a.ms);
      times.many.push(b.ms);
      keys = b.keys;
    }
    return { few: median(times.few), many: median(times.many), keys };
  };
}
