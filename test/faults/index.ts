import { randomBytes, randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { DeliveryDocument } from '../../src/deliveries/model.ts';
import type { EventDocument } from '../../src/events/model.ts';
import { createModelGateway } from '../../src/index.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { compileWorker } from './compile.ts';
import { createCrew } from './crew.ts';
import { createDisturbances } from './disturbances.ts';
import { type Fault, faults, type Scene } from './faults.ts';
import { add, emptyTally, summary, type Tally, verify } from './ledger.ts';
import { startLoad } from './load.ts';
import { createRandom } from './random.ts';
import { manners, startReceivers } from './receivers.ts';

const { values } = parseArgs({
  options: {
    full: { type: 'boolean', default: false },
    seed: { type: 'string' },
    only: { type: 'string', default: '' },
  },
});
const seed = Number(values.seed ?? randomInt(2 ** 31));
const retryDelays = [150, 150, 150, 150, 150];
const eventsPerSecond = 4;
/** How long nothing may arrive before what is left is counted as lost, and how long is waited in all. Milliseconds. */
const quietFor = 60_000;
const settleWithin = 600_000;

type Receivers = Awaited<ReturnType<typeof startReceivers>>;

/** Registers one webhook for every receiver. */
async function register(cluster: Cluster, secretKey: string, secret: string, receivers: Receivers) {
  const gateway = await createModelGateway({
    mongo: cluster.connection,
    secretKeys: [secretKey],
    allowHttp: true,
    allowPrivateNetworks: ['127.0.0.0/8'],
  });
  const made: { id: string; name: string }[] = [];
  for (const name of manners) {
    const webhook = { url: receivers.url(name), events: ['payment.completed'], secret };
    const { id } = await gateway.webhooks.create('usr_1', webhook);
    made.push({ id, name });
  }
  await gateway.close();
  return made;
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

async function runFault(
  fault: Fault,
  times: number,
  scene: Scene,
  receivers: Receivers,
  webhooks: { id: string; name: string }[],
) {
  const { cluster, crew, disturbances } = scene;
  const undisturbed = disturbances.all.length;
  await crew.untilReady(crew.size);
  const load = startLoad(crew, eventsPerSecond);
  await sleep(300);
  await fault.inject(scene, times);
  await load.stop();
  await settle(cluster, receivers);

  const accepted = new Set(load.accepted);
  const ids = [...accepted];
  const events = await cluster.connection
    .collection<EventDocument>('gateway_events')
    .find({ _id: { $in: ids } }, { promoteBuffers: true })
    .toArray();
  const deliveries = await cluster.connection
    .collection<DeliveryDocument>('gateway_deliveries')
    .find({ eventId: { $in: ids } })
    .toArray();
  const locks = await cluster.connection.collection('gateway_jobs').countDocuments({ lockedAt: { $ne: null } });
  return verify({
    faults: times,
    webhooks,
    accepted: ids,
    events: new Map(events.map((event) => [event._id, event])),
    deliveries,
    arrivals: receivers.arrivals.filter(({ eventId }) => accepted.has(eventId)),
    retryDelays,
    disturbances: disturbances.all.slice(undisturbed),
    publisherNotes: [...load.notes, ...(locks > 0 ? [`${locks} jobs were left locked`] : [])],
  });
}

async function main(): Promise<Tally> {
  console.log(`seed ${seed}${values.full ? ', full' : ''}`);
  const random = createRandom(seed);
  const cluster = await startCluster();
  const secret = randomBytes(24).toString('base64');
  const secretKey = `k1:${randomBytes(32).toString('base64')}`;
  const receivers = await startReceivers(secret, random);
  const webhooks = await register(cluster, secretKey, secret, receivers);
  const entry = new URL('../../dist/index.js', import.meta.url).href;
  const disturbances = createDisturbances();
  const crew = createCrew(
    await compileWorker(),
    { entry, uri: cluster.uri, secretKey, retryDelays },
    3,
    disturbances.died,
  );
  let total = emptyTally();
  try {
    for (const fault of faults) {
      if (!new RegExp(values.only).test(fault.name)) continue;
      const started = performance.now();
      const times = values.full ? fault.full : fault.short;
      const tally = await runFault(fault, times, { cluster, crew, random, disturbances }, receivers, webhooks);
      console.log(`${fault.name}: ${summary(tally)} (${Math.round((performance.now() - started) / 1_000)} s)`);
      for (const note of tally.notes.slice(0, 5)) console.log(`  ${note}`);
      total = add(total, tally);
    }
  } finally {
    await crew.dismiss();
    await receivers.stop();
    await cluster.stop();
  }
  return total;
}

const total = await main();
console.log(summary(total));
process.exitCode = total.lost + total.early + total.wrong === 0 ? 0 : 1;
