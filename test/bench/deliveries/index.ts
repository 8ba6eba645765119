import { cpus } from 'node:os';
import { report } from '../report.ts';
import { openBed, type Process, type Target } from './bed.ts';
import { nineOthers } from './hanging.ts';
import { subscribeMany, wideFanOut } from './large.ts';
import { createNotes } from './notes.ts';
import { pendingDeliveries } from './pending.ts';
import * as rows from './rows.ts';
import * as workers from './workers.ts';

const quick = process.argv.includes('--quick');
const rounds = quick ? 1 : 3;
/** Groups of rows, all by default: `-- --only=rates,idle`. */
const only = process.argv
  .find((argument) => argument.startsWith('--only='))
  ?.slice('--only='.length)
  .split(',');
const scale = quick ? 0.3 : 1;
const some = (count: number) => Math.round(count * scale);
const thousands = (count: number) => count.toLocaleString('en');

const notes = createNotes();
const bed = await openBed();
let user = 0;
/** An account of its own for each measurement. */
const newUser = () => {
  user += 1;
  return `usr_${user}`;
};

async function opened(process: Process): Promise<Target> {
  await bed.load.call('retarget');
  return process.call<Target>('open');
}

const stockName = (row: string) => `stock Agenda: ${row}`;
const rateRows = [
  { row: 'one webhook', short: 'one webhook', events: 10_000, webhooks: 1 },
  { row: 'each event to 10 webhooks', short: 'fan-out', events: 2_000, webhooks: 10 },
] as const;
const rateName = (row: string) => `${row}, 16 publishers over HTTP, published to delivered`;

async function warmUp(sender: Process, target: Target): Promise<void> {
  const userId = newUser();
  await rows.subscribe(bed, sender, userId, 1);
  await rows.rate(bed, sender, target, userId, some(500), 1);
}

async function rates(sender: Process, share: number, named: (row: string) => string): Promise<void> {
  const target = await opened(sender);
  await sender.call('start');
  await warmUp(sender, target);
  for (const { row, events, webhooks } of rateRows) {
    const userId = newUser();
    await rows.subscribe(bed, sender, userId, webhooks);
    const found = await rows.rate(bed, sender, target, userId, some(events * share), webhooks);
    notes.add(named(rateName(row)), 'deliveries/s', found.rate);
    notes.add(named(`${row}: CPU of the sender, a delivery`), 'ms', found.cpu);
    notes.add(named(`${row}: CPU of sender and mongod, a delivery`), 'ms', found.cpu + found.mongod);
    notes.add(named(`${row}: operations on the database, a delivery`), '', found.operations);
  }
  const { peak } = await sender.call<{ peak: number }>('usage');
  notes.add(named('peak memory of the sender'), 'MB', peak);
  await bed.closed(sender);
}

async function stock(): Promise<void> {
  await rates(await bed.stock(), 0.1, stockName);
  for (const { row, short } of rateRows) {
    notes.addRatio(`${short}, times stock Agenda`, rateName(row), stockName(rateName(row)));
  }
}

async function warmSender(): Promise<{ sender: Process; target: Target }> {
  const sender = await bed.sender();
  const target = await opened(sender);
  await sender.call('start');
  await warmUp(sender, target);
  return { sender, target };
}

async function latency(): Promise<void> {
  const { sender, target } = await warmSender();
  const userId = newUser();
  await rows.subscribe(bed, sender, userId, 1);
  for (const [perSecond, events] of [
    [10, quick ? 50 : 200],
    [200, quick ? 600 : 2_000],
  ] as const) {
    const { accepted, sent } = await rows.delays(bed, target, userId, events, perSecond);
    notes.addAll(`accepted to first byte at ${perSecond}/s`, 'ms', accepted);
    notes.addAll(`published to first byte at ${perSecond}/s`, 'ms', sent);
  }
  await bed.closed(sender);
}

async function hang(): Promise<void> {
  const { sender, target } = await warmSender();
  const turns = await nineOthers(bed, sender, target, newUser(), {
    turns: 3,
    events: quick ? 300 : 600,
    perSecond: 100,
  });
  for (const figure of ['p50', 'p99', 'CPU', 'operations'] as const) {
    const unit = figure === 'operations' ? 'an event' : figure === 'CPU' ? 'ms an event' : 'ms';
    for (const { answers, hangs } of turns) {
      notes.add(`nine receivers beside one that answers, ${figure}`, unit, answers[figure]);
      notes.add(`nine receivers beside one that hangs, ${figure}`, unit, hangs[figure]);
      notes.add(`hang row ${figure}, beside a hanging one / without`, 'times', hangs[figure] / answers[figure]);
    }
  }
  await bed.closed(sender);
}

const waiting = quick ? 5_000 : 10_000;

/** Publishing with nobody to deliver leaves what is drained. */
async function backlog(): Promise<void> {
  const publisher = await bed.sender();
  const target = await opened(publisher);
  const userId = newUser();
  await rows.subscribe(bed, publisher, userId, 1);
  notes.add('publish alone over HTTP, one webhook', 'events/s', await rows.publishAlone(bed, target, userId, waiting));
  const worker = await bed.sender();
  notes.add(`${thousands(waiting)} waiting, drained in`, 's', await rows.drain(bed, worker, waiting));
  await bed.closed(worker);
  await bed.closed(publisher);
}

async function kill(): Promise<void> {
  const publisher = await bed.sender();
  const target = await opened(publisher);
  const userId = newUser();
  await rows.subscribe(bed, publisher, userId, 10);
  await rows.publishAlone(bed, target, userId, waiting / 10);
  const { successor, lost, twice, seconds } = await workers.killInMidDrain(
    bed,
    await bed.sender(),
    bed.sender,
    waiting,
  );
  const row = `worker killed in mid-drain of ${thousands(waiting)}`;
  notes.add(`${row}: lost`, '', lost);
  notes.add(`${row}: twice`, '', twice);
  notes.add(`${row}: restart to last`, 's', seconds);
  await bed.closed(successor);
  await bed.closed(publisher);
}

async function several(): Promise<void> {
  const publisher = await bed.sender();
  const target = await opened(publisher);
  const userId = newUser();
  await rows.subscribe(bed, publisher, userId, 10);
  for (const count of [1, 2, 4]) {
    const rate = await workers.shareBacklog(bed, target, userId, count, some(10_000));
    notes.add(
      `a backlog drained by ${count} worker process${count === 1 ? '' : 'es'}, none twice`,
      'deliveries/s',
      rate,
    );
  }
  await bed.closed(publisher);
}

async function wake(): Promise<void> {
  const publisher = await bed.sender();
  const target = await opened(publisher);
  for (const changeStreams of [false, true]) {
    const found = await workers.wakeUp(bed, publisher, target, newUser(), { changeStreams, events: quick ? 40 : 150 });
    notes.addAll(`another process' worker, ${changeStreams ? 'with' : 'without'} change streams`, 'ms', found);
  }
  await bed.closed(publisher);
}

const accounting = {
  credits: { prices: { '*': { output: 1 } } },
  limits: { perKey: { requestsPerMinute: 1_000 }, shared: true },
  quotas: { perUser: { unit: 'tokens', daily: 1_000_000 } },
};

async function idle(): Promise<void> {
  for (const [name, options] of [
    ['idle gateway', { usage: false }],
    ['idle gateway with credits, limits and quotas', accounting],
  ] as const) {
    const worker = await bed.sender(options);
    await worker.call('start');
    const { cpu, operations } = await workers.idle(bed, worker, quick ? 4 : 10);
    notes.add(`${name}: CPU`, '% of a core', cpu);
    notes.add(`${name}: operations on the database`, '/s', operations);
    await bed.closed(worker);
  }
}

/** Accounts with as many webhooks are made once. */
let wideUsers: Promise<readonly [string, string]> | undefined;
async function makeWideUsers(): Promise<readonly [string, string]> {
  const [thousand, tenThousand] = [newUser(), newUser()];
  await subscribeMany(bed, thousand, 1_000);
  await subscribeMany(bed, tenThousand, 10_000);
  return [thousand, tenThousand];
}

async function wide(): Promise<void> {
  wideUsers ??= makeWideUsers();
  const { narrow, wide } = await wideFanOut(bed, ...(await wideUsers));
  notes.add('one event to 10,000 webhooks, published in', 's', wide.publish);
  notes.add('one event to 10,000 webhooks, delivered in', 's', wide.deliver);
  notes.add('one event to 10,000 webhooks, its document', 'kB', wide.document);
  notes.add('one event to 1,000 webhooks, memory of the sender grew by', 'MB', narrow.memory);
  notes.add('one event to 10,000 webhooks, memory of the sender grew by', 'MB', wide.memory);
}

const many = quick ? 100_000 : 1_000_000;
let measurePending: ReturnType<typeof pendingDeliveries> | undefined;

async function pending(): Promise<void> {
  measurePending ??= pendingDeliveries(bed, many);
  const found = await (await measurePending)(quick ? 9 : 15);
  notes.add('claiming 200 that are due, 1,000 pending for later', 'ms', found.few);
  notes.add(`claiming 200 that are due, ${thousands(many)} pending for later`, 'ms', found.many);
  notes.add(`claiming what is due, ${thousands(many)} pending / 1,000`, 'times', found.many / found.few);
  notes.add('index keys read to find them, in both alike', '', found.keys);
}

const groups = {
  rates: async () => rates(await bed.sender(), 1, (row) => row),
  stock,
  latency,
  hang,
  backlog,
  kill,
  several,
  wake,
  idle,
  wide,
  pending,
};

for (let i = 0; i < rounds; i += 1) {
  for (const [name, run] of Object.entries(groups)) {
    if (only && !only.includes(name)) continue;
    const started = performance.now();
    await run();
    console.error(`  (${name}: ${((performance.now() - started) / 1_000).toFixed(0)} s)`);
  }
}
await bed.close();

const [cpu] = cpus();
report(
  `Deliveries, on one machine with everything on it: ${cpus().length} × ${cpu?.model}, Node ${process.versions.node}; every delivery and signature checked`,
  notes.figures(),
);
