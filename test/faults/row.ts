import { setTimeout as sleep } from 'node:timers/promises';
import type { DeliveryDocument } from '../../src/deliveries/model.ts';
import type { EventDocument } from '../../src/events/model.ts';
import type { FollowUp } from './abandoned.ts';
import type { Cluster } from './cluster/cluster.ts';
import type { Fault, Scene } from './faults.ts';
import { startLoad } from './load.ts';
import type { ParallelLoad } from './parallel-load.ts';
import type { Receivers } from './receivers.ts';
import { verify } from './verdict/deliveries.ts';
import { longestFirstArrival, type Row } from './verdict/stalls.ts';

/** How long nothing may arrive before what is left is counted as stuck, and how long is waited in all. Milliseconds. */
const quietFor = 60_000;
const settleWithin = 600_000;

/** What a row is run with, beside where its fault happens. */
export interface RowContext {
  readonly receivers: Receivers;
  readonly webhooks: readonly { readonly id: string; readonly name: string }[];
  readonly retryDelays: readonly number[];
  readonly followUp: FollowUp;
  readonly money: ParallelLoad;
  readonly eventsPerSecond: number;
}

/** Resolves when nothing is left to do, or when nothing is done any more; what is left is counted then. */
async function settle({ connection }: Cluster, { arrivals }: Receivers): Promise<void> {
  const started = performance.now();
  let arrived = arrivals.length;
  let arrivedAt = started;
  for (let now = started; now - started < settleWithin && now - arrivedAt < quietFor; now = performance.now()) {
    const left = await Promise.all([
      connection.collection('gateway_deliveries').countDocuments({ state: 'pending' }),
      connection.collection('gateway_events').countDocuments({ fanOut: 'pending' }),
      connection.collection('gateway_jobs').countDocuments({ lockedAt: { $ne: null } }),
    ]).catch(() => [1]);
    if (left.every((count) => count === 0)) return;
    await sleep(200);
    if (arrivals.length > arrived) arrivedAt = now;
    arrived = arrivals.length;
  }
  console.log('  something was still left to do after the longest wait');
}

/** What the database says of these events. */
async function recorded({ connection }: Cluster, ids: string[]) {
  const [events, deliveries, locks] = await Promise.all([
    connection
      .collection<EventDocument>('gateway_events')
      .find({ _id: { $in: ids } }, { promoteBuffers: true })
      .toArray(),
    connection
      .collection<DeliveryDocument>('gateway_deliveries')
      .find({ eventId: { $in: ids } })
      .toArray(),
    connection.collection('gateway_jobs').countDocuments({ lockedAt: { $ne: null } }),
  ]);
  return { events: new Map(events.map((event) => [event._id, event])), deliveries, locks };
}

/** Makes a fault happen so many times under load, and judges what came of everything. */
export async function runRow(fault: Fault, times: number, scene: Scene, context: RowContext): Promise<Row> {
  const { cluster, workers, disturbances } = scene;
  const { receivers, money } = context;
  const undisturbed = disturbances.all.length;
  const arrivedBefore = receivers.arrivals.length;
  await workers.untilReady(workers.size);
  const load = startLoad(workers, context.eventsPerSecond);
  money.begin();
  const atRest = async (run: () => Promise<void>) => {
    await Promise.all([load.pause(), money.pause()]);
    await settle(cluster, receivers);
    await run();
    load.resume();
    money.resume();
  };
  await sleep(300);
  await fault.inject({ ...scene, atRest }, times);
  await load.stop();
  await money.end();
  await settle(cluster, receivers);
  const { line, wrong } = await money.verdict(disturbances);
  console.log(`  ${line}`);

  const { stored, notes } = await context.followUp(load.abandoned);
  const accepted = [...new Set([...load.accepted.keys(), ...stored])];
  const { events, deliveries, locks } = await recorded(cluster, accepted);
  const arrivals = receivers.arrivals.slice(arrivedBefore);
  const tally = verify({
    faults: times,
    webhooks: context.webhooks,
    accepted,
    events,
    deliveries,
    arrivals,
    retryDelays: context.retryDelays,
    disturbances: disturbances.all.slice(undisturbed),
    publisherNotes: [...load.notes, ...notes, ...wrong, ...(locks > 0 ? [`${locks} jobs were left locked`] : [])],
  });
  const stalls = { publish: load.longestAnswer(), firstArrival: longestFirstArrival(load.accepted, arrivals) };
  return { ...tally, name: fault.name, stalls };
}
