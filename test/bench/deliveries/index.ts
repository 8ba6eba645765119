import { cpus } from 'node:os';
import { type Figure, report } from '../report.ts';
import { openBed, type Process, type Target } from './bed.ts';
import { nineOthers } from './hanging.ts';
import * as rows from './rows.ts';

const quick = process.argv.includes('--quick');
const rounds = quick ? 1 : 3;
/** Groups of rows, all by default: `-- --only=rates,idle`. */
const only = process.argv
  .find((argument) => argument.startsWith('--only='))
  ?.slice('--only='.length)
  .split(',');
const scale = quick ? 0.3 : 1;
const some = (count: number) => Math.round(count * scale);

const measured = new Map<string, { unit: string; values: number[] }>();

function note(name: string, unit: string, value: number): void {
  const figure = measured.get(name) ?? { unit, values: [] };
  figure.values.push(value);
  measured.set(name, figure);
  console.error(`  ${name}: ${value.toFixed(2)} ${unit}`);
}

const wanted = (row: string) => only?.includes(row) ?? true;
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

async function rates(name: string, open: () => Promise<Process>, share: number): Promise<Process> {
  const sender = await open();
  const target = await opened(sender);
  await sender.call('start');
  const warm = newUser();
  await rows.subscribe(bed, sender, warm, 1);
  await rows.rate(bed, sender, target, warm, some(500 * share), 1);
  for (const [row, events, webhooks] of [
    ['one webhook', some(10_000 * share), 1],
    ['each event to 10 webhooks', some(2_000 * share), 10],
  ] as const) {
    const userId = newUser();
    await rows.subscribe(bed, sender, userId, webhooks);
    const { rate, cpu, mongod, operations } = await rows.rate(bed, sender, target, userId, events, webhooks);
    note(`${name}${row}, 16 publishers over HTTP, published to delivered`, 'deliveries/s', rate);
    note(`${name}${row}: CPU of the sender, a delivery`, 'ms', cpu);
    note(`${name}${row}: CPU of sender and mongod, a delivery`, 'ms', cpu + mongod);
    note(`${name}${row}: operations on the database, a delivery`, '', operations);
  }
  const { peak } = await sender.call<{ peak: number }>('usage');
  note(`${name}peak memory of the sender`, 'MB', peak);
  return sender;
}

async function latencies(sender: Process): Promise<void> {
  const target = await opened(sender);
  const userId = newUser();
  await rows.subscribe(bed, sender, userId, 1);
  for (const [perSecond, events] of [
    [10, quick ? 50 : 200],
    [200, quick ? 600 : 2_000],
  ] as const) {
    const found = await rows.delays(bed, target, userId, events, perSecond);
    for (const [what, value] of Object.entries(found)) {
      const [from, p] = what.startsWith('sent ') ? ['published', what.slice(5)] : ['accepted', what];
      note(`${from} to first byte at ${perSecond}/s, ${p}`, 'ms', value);
    }
  }
}

async function hanging(sender: Process): Promise<void> {
  const target = await opened(sender);
  const turns = await nineOthers(bed, sender, target, newUser(), {
    turns: 3,
    events: quick ? 300 : 600,
    perSecond: 100,
  });
  for (const [figure, unit] of [
    ['p50', 'ms'],
    ['p99', 'ms'],
    ['cpu', 'ms'],
    ['operations', ''],
  ] as const) {
    for (const turn of turns) {
      note(`nine receivers beside one that answers, ${figure}`, unit, turn.answers[figure]);
      note(`nine receivers beside one that hangs, ${figure}`, unit, turn.hangs[figure]);
      note(`nine receivers, ${figure}, beside a hanging one / without`, 'x', turn.hangs[figure] / turn.answers[figure]);
    }
  }
}

/** Publishing with nobody to deliver leaves what the draining rows drain. */
async function backlogs(): Promise<void> {
  const publisher = await bed.sender();
  const target = await opened(publisher);
  const waiting = quick ? 5_000 : 10_000;
  const first = newUser();
  await rows.subscribe(bed, publisher, first, 1);
  note('publish alone over HTTP, one webhook', 'events/s', await rows.publishAlone(bed, target, first, waiting));
  const worker = await bed.sender();
  note(`${waiting} waiting, drained in`, 's', await rows.drain(bed, worker, waiting));
  if (wanted('idle')) {
    const { cpu, operations } = await rows.idle(bed, worker, 5);
    note('idle worker: CPU', '% of a core', cpu ?? Number.NaN);
    note('idle worker: operations on the database', '/s', operations ?? Number.NaN);
  }
  await worker.call('close');
  await worker.end();
  if (wanted('kill')) {
    const second = newUser();
    await rows.subscribe(bed, publisher, second, 10);
    await rows.publishAlone(bed, target, second, waiting / 10);
    const { successor, figures } = await rows.killInMidDrain(bed, await bed.sender(), bed.sender, waiting);
    note('worker killed in mid-drain: lost', '', figures.lost ?? Number.NaN);
    note('worker killed in mid-drain: twice', '', figures.twice ?? Number.NaN);
    note('worker killed in mid-drain: restart to last', 's', figures.seconds ?? Number.NaN);
    await successor.call('close');
    await successor.end();
  }
  await publisher.call('close');
  await publisher.end();
}

async function round(): Promise<void> {
  if (wanted('rates') || wanted('latency') || wanted('hang')) {
    const sender = await rates('', bed.sender, wanted('rates') ? 1 : 0.02);
    if (wanted('latency')) await latencies(sender);
    if (wanted('hang')) await hanging(sender);
    await sender.call('close').catch(() => {});
    await sender.end();
  }
  if (wanted('backlog')) await backlogs();
  if (wanted('stock')) {
    const stock = await rates('stock Agenda: ', bed.stock, 0.1);
    await stock.call('close');
    await stock.end();
  }
}

for (let i = 0; i < rounds; i += 1) await round();
await bed.close();

const figures: Figure[] = [...measured].map(([name, figure]) => ({ name, ...figure }));
const [cpu] = cpus();
report(
  `Deliveries, on one machine with everything on it: ${cpus().length} × ${cpu?.model}, Node ${process.versions.node}; every delivery and signature checked`,
  figures,
);
