import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { announce, describeGroups, readGroups, showHelp, wholeNumbers } from '../arguments.ts';
import { machineOf } from '../origin.ts';
import { report } from '../report.ts';
import { commandRows } from './command-rows.ts';
import { largeRows } from './large-rows.ts';
import { createRun } from './run.ts';
import { senderRows } from './sender-rows.ts';
import { openSetup } from './setup.ts';
import { workerRows } from './worker-rows.ts';

/** What deliveries cost, beside what the database does alone and beside stock Agenda. Needs the built package. */

/** Those that can be compared with another checkout. */
const compared = { rates: 60, backlog: 30, publisher: 90 };
const durations = {
  ...compared,
  processes: 360,
  stock: 60,
  commands: 30,
  hang: 60,
  crowd: 60,
  kill: 20,
  several: 30,
  wake: 40,
  idle: 140,
  concurrency: 40,
  wide: 30,
  pending: 60,
};
showHelp('bench:deliveries', {
  '--quick': 'one short round',
  '--rounds=<number>': 'rounds, 3 without it',
  '--only=<groups>': describeGroups(durations),
  '--against=<folder>':
    `compares with another checkout, installed and built, in twice the time: ${Object.keys(compared).join(', ')} alone; ` +
    '--against=. shows by how much two runs of one checkout differ',
});
const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    only: { type: 'string' },
    against: { type: 'string' },
  },
});
const { quick, against } = values;
const [rounds = 1] = wholeNumbers('rounds', values.rounds ?? (quick ? '1' : '3'));
const other = against === undefined ? undefined : resolve(against, 'dist/cli/main.js');
if (against === '' || (other !== undefined && !existsSync(other))) {
  throw new TypeError(
    `--against takes the folder of a checkout that is installed and built, not ${against || 'nothing'}`,
  );
}
const available: Readonly<Record<string, number>> = other === undefined ? durations : compared;
const wanted = readGroups(available, values.only);
if (!quick) announce(available, wanted, other === undefined ? rounds : 2 * rounds);

const setup = await openSetup();
const run = createRun(setup, quick);
const groups = { ...commandRows(run, other), ...senderRows(run), ...workerRows(run), ...largeRows(run) };
for (let round = 0; round < rounds; round += 1) {
  for (const name of wanted) {
    const started = performance.now();
    await groups[name]?.(round);
    console.error(`  (${name}: ${((performance.now() - started) / 1_000).toFixed(0)} s)`);
  }
}
await setup.close();

report(
  `Deliveries, on one machine with everything on it: ${machineOf()}; every delivery and signature checked`,
  run.notes.figures(),
);
