import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { showHelp } from '../arguments.ts';
import { machineOf } from '../origin.ts';
import { report } from '../report.ts';
import { compareWith } from './compare.ts';
import { everydayRows } from './everyday.ts';
import { largeRows } from './large-rows.ts';
import { createRun } from './run.ts';
import { senderRows } from './sender-rows.ts';
import { openSetup } from './setup.ts';
import { workerRows } from './worker-rows.ts';

/** What deliveries cost, beside stock Agenda. Needs the built package: `npm run bench:deliveries`. */

const groupNames =
  'rates cold processes stock latency hang crowd everyday backlog kill several wake idle concurrency wide pending'.split(
    ' ',
  );
showHelp('bench:deliveries', {
  '--quick': 'one short round',
  '--only=<groups>': `some of ${groupNames.join(', ')}`,
  '--against=<folder>': 'compares with another checkout, installed and built, and measures nothing else',
});
const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    /** Groups of rows, all by default: `-- --only=rates,idle`. */
    only: { type: 'string' },
    /** The folder of a checkout, installed and built, that this one is compared with; nothing else is measured then. */
    against: { type: 'string' },
  },
});
const { quick, against } = values;
const only = values.only?.split(',');
const unknown = only?.find((group) => !groupNames.includes(group));
if (unknown !== undefined) throw new TypeError(`--only takes some of ${groupNames.join(', ')}, not ${unknown}`);
const rounds = quick ? 1 : 3;
if (against !== undefined && (against === '' || !existsSync(join(against, 'dist/index.js')))) {
  throw new TypeError(
    `--against takes the folder of a checkout that is installed and built, not ${against || 'nothing'}`,
  );
}
if (against !== undefined && only) throw new TypeError('--only has no meaning beside --against: leave one of them out');

const setup = await openSetup();
const run = createRun(setup, quick);

async function measureRows(): Promise<void> {
  const groups = Object.entries({ ...senderRows(run), ...everydayRows(run), ...workerRows(run), ...largeRows(run) });
  for (let i = 0; i < rounds; i += 1) {
    for (const [name, measure] of groups) {
      if (only && !only.includes(name)) continue;
      const started = performance.now();
      await measure();
      console.error(`  (${name}: ${((performance.now() - started) / 1_000).toFixed(0)} s)`);
    }
  }
}

await (against === undefined ? measureRows() : compareWith(run, against));
await setup.close();

report(
  `Deliveries, on one machine with everything on it: ${machineOf()}; every delivery and signature checked`,
  run.notes.figures(),
);
