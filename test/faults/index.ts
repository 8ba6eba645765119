import { randomBytes, randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { startMachinePace } from '../support/machine-pace.ts';
import { createFollowUp } from './abandoned.ts';
import { clockAndDnsFaults } from './clock-and-dns-faults.ts';
import { startCluster } from './cluster/cluster.ts';
import { createMemberClocks } from './cluster/member-clocks.ts';
import { atOnce, eventFaults } from './event-faults.ts';
import { faults } from './faults.ts';
import { startModelUpstream } from './money/model-upstream.ts';
import { createMoney } from './money/money.ts';
import { networkFaults } from './network-faults.ts';
import { createRandom } from './random.ts';
import { manners, startReceivers } from './receivers.ts';
import { runRow } from './row.ts';
import { createSoak } from './soak.ts';
import { add, emptyTally, isClean, summary, type Tally } from './verdict/deliveries.ts';
import { createDisturbances } from './verdict/disturbances.ts';
import { describeStalls, type Row, table, writeRows } from './verdict/stalls.ts';
import { registerWebhooks } from './webhooks.ts';
import { compileWorker } from './workers/compile.ts';
import { startWorkers } from './workers/workers.ts';

const { values } = parseArgs({
  options: {
    full: { type: 'boolean', default: false },
    seed: { type: 'string' },
    only: { type: 'string', default: '' },
    json: { type: 'string' },
    soak: { type: 'boolean', default: false },
    minutes: { type: 'string', default: '30' },
    /** Events a second. */
    rate: { type: 'string' },
  },
});
const seed = Number(values.seed ?? randomInt(2 ** 31));
/** Events a second. */
const rates = { rows: 4, soak: 100 };
/** In a soak, a receiver that is dead would take six of ten attempts. */
const soakedManners = ['good', 'flaky'] as const;
/** The last is long enough for a job. */
const retryDelays = [150, 150, 150, 150, 2_500];

async function main(): Promise<Row[]> {
  console.log(`seed ${seed}${values.full ? ', full' : ''}`);
  const random = createRandom(seed);
  const memberClocks = await createMemberClocks();
  const cluster = await memberClocks.around(startCluster);
  const secret = randomBytes(24).toString('base64');
  const secretKey = `k1:${randomBytes(32).toString('base64')}`;
  const receivers = await startReceivers(secret, random);
  const webhooks = await registerWebhooks(
    cluster,
    { secretKey, secret },
    receivers,
    values.soak ? soakedManners : manners,
  );
  const disturbances = createDisturbances();
  cluster.onElection(disturbances.elected);
  const upstream = await startModelUpstream(random);
  const workers = startWorkers(
    await compileWorker(),
    {
      uri: `${cluster.uri}&appName=faults-worker&monitorCommands=true`,
      secretKey,
      retryDelays,
      upstreams: upstream.baseUrls,
    },
    3,
    disturbances.died,
  );
  const pace = startMachinePace();
  const rows: Row[] = [];
  try {
    const scene = { cluster, workers, random, disturbances, memberClocks, long: values.full };
    const money = await createMoney({ cluster, workers, upstream, random, secretKey, slowness: pace.slowness });
    const around = { receivers, webhooks, retryDelays, followUp: createFollowUp(cluster), money };
    const eventsPerSecond = Number(values.rate ?? (values.soak ? rates.soak : rates.rows));
    const ofEvents =
      values.full || values.soak
        ? eventFaults
        : [atOnce('workers killed and stopped at steps of an event', eventFaults)];
    const every = [...faults, ...ofEvents, ...networkFaults, ...clockAndDnsFaults(memberClocks)];
    const meant = every.filter(({ name }) => new RegExp(values.only).test(name));
    const soak = createSoak(meant, Number(values.minutes));
    for (const fault of values.soak ? [soak.fault] : meant) {
      const started = performance.now();
      const row = await runRow(fault, values.full ? fault.full : fault.short, scene, { ...around, eventsPerSecond });
      if (values.soak) soak.judge(row, workers);
      const took = Math.round((performance.now() - started) / 1_000);
      console.log(`${fault.name}: ${summary(row)} · ${describeStalls(row.stalls)} (${took} s)`);
      for (const note of row.notes.slice(0, 5)) console.log(`  ${note}`);
      rows.push(row);
    }
  } finally {
    await pace.stop();
    await workers.stop();
    await receivers.stop();
    await upstream.close();
    await cluster.stop();
    await memberClocks.remove();
  }
  return rows;
}

const rows = await main();
console.log(table(rows));
if (values.json) await writeRows(values.json, seed, rows);
const total = rows.reduce<Tally>(add, emptyTally());
console.log(summary(total));
process.exitCode = isClean(total) ? 0 : 1;
