import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { deliveryFigures, relayFigures, type ScaleMeasured, spreadOf, writeMeasured } from '../../scale/measured.ts';
import { positiveNumber, showHelp, wholeNumbers } from '../arguments.ts';
import { openSetup } from '../deliveries/setup.ts';
import { originOf } from '../origin.ts';
import { BenchUpstream } from '../relay/upstream.ts';
import { report } from '../report.ts';
import { startGateways } from './gateways.ts';
import { type Members, openMembers } from './members.ts';
import { measureRelay } from './relay-workers.ts';
import { measureTurn } from './turn.ts';

/**
 * What several gateway processes deliver and relay with a replica set of three members, and what each delivery costs whom. Needs the
 * built package: `npm run bench:scale`. `--write` puts the figures into test/scale/measured.json, for docs/scale.md.
 */

showHelp('bench:scale', {
  '--rounds=<number>': 'rounds, 3 without it',
  '--seconds=<number>': 'how long each load takes, 5 without it',
  '--processes=<numbers>': 'how many gateways, 1,2,4,8 without it',
  '--json=<file>': 'writes the figures there',
  '--write': 'writes the figures for docs/scale.md',
});
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '5' },
    processes: { type: 'string', default: '1,2,4,8' },
    json: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
});
const [rounds = 1] = wholeNumbers('rounds', values.rounds);
const seconds = positiveNumber('seconds', values.seconds);
const processCounts = wholeNumbers('processes', values.processes);
const webhookCounts = [1, 10];
const workerCounts = [1, 2];

const setup = await openSetup(3);
const members: Members = await openMembers(setup);
const upstream = await BenchUpstream.start();

/** The figures of one row in each round. */
type Rounds = Record<string, number>[];
const deliveries = new Map<string, Rounds>();
const relay = new Map<number, Rounds>();
const deliveryRow = (processes: number, webhooks: number) => `${processes} processes, ${webhooks} webhooks`;

function add<Key>(rows: Map<Key, Rounds>, key: Key, name: string, figures: Record<string, number>): void {
  rows.set(key, [...(rows.get(key) ?? []), figures]);
  const shown = Object.entries(figures).map(([figure, value]) => `${figure} ${value.toPrecision(3)}`);
  console.error(`  ${name}: ${shown.join(', ')}`);
}

for (let round = 0; round < rounds; round += 1) {
  for (const processes of processCounts) {
    const gateways = await startGateways(setup, processes);
    // the more processes share the cores, the longer until each has compiled what it runs
    await gateways.saturate(10, Math.min(1 + processes / 2, seconds));
    await gateways.saturate(1, Math.min(2, seconds));
    for (const webhooks of webhookCounts) {
      const row = deliveryRow(processes, webhooks);
      add(deliveries, row, row, { ...(await measureTurn({ setup, members, gateways, webhooks, seconds })) });
    }
    await gateways.close();
  }
  for (const workers of workerCounts) {
    const figures = await measureRelay({ setup, members, upstream, workers, seconds });
    add(relay, workers, `WORKERS=${workers}`, { ...figures });
  }
}
upstream.close();
await members.close();
await setup.close();

/** The values of each figure in all rounds. */
function collect<Name extends string>(names: Readonly<Record<Name, unknown>>, found: Rounds | undefined) {
  return (Object.keys(names) as Name[]).map((name) => ({
    name,
    values: (found ?? []).map((round) => round[name] ?? Number.NaN),
  }));
}

function spreads<Name extends string>(names: Readonly<Record<Name, unknown>>, found: Rounds | undefined) {
  const entries = collect(names, found).map(({ name, values }) => [name, spreadOf(values)]);
  return Object.fromEntries(entries) as Record<Name, ReturnType<typeof spreadOf>>;
}

const measured: ScaleMeasured = {
  ...originOf(),
  rounds,
  seconds,
  deliveries: webhookCounts.flatMap((webhooks) =>
    processCounts.map((processes) => {
      const figures = spreads(deliveryFigures, deliveries.get(deliveryRow(processes, webhooks)));
      return { processes, webhooks, figures };
    }),
  ),
  relay: workerCounts.map((workers) => ({ workers, figures: spreads(relayFigures, relay.get(workers)) })),
};

for (const { processes, webhooks } of measured.deliveries) {
  const row = deliveryRow(processes, webhooks);
  const figures = collect(deliveryFigures, deliveries.get(row)).map(({ name, values }) => {
    const [label, unit] = deliveryFigures[name];
    return { name: label, unit, values };
  });
  report(`Deliveries by ${row} an event, on ${measured.machine}; every delivery and signature checked`, figures);
}
for (const workers of workerCounts) {
  const figures = collect(relayFigures, relay.get(workers)).map(({ name, values }) => {
    const [label, unit] = relayFigures[name];
    return { name: label, unit, values };
  });
  report(`Relayed chats with WORKERS=${workers}, 64 connections`, figures);
}
if (values.json) writeFileSync(values.json, `${JSON.stringify(measured, null, 2)}\n`);
if (values.write) writeMeasured({ scale: measured });
