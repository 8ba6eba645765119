import { existsSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { report } from '../report.ts';
import { compareWith } from './compare.ts';
import { largeRows } from './large-rows.ts';
import { createRun } from './run.ts';
import { senderRows } from './sender-rows.ts';
import { openSetup } from './setup.ts';
import { workerRows } from './worker-rows.ts';

/** What deliveries cost, beside stock Agenda. Needs the built package: `npm run bench:deliveries`. */

const option = (name: string) =>
  process.argv.find((argument) => argument.startsWith(`--${name}=`))?.slice(`--${name}=`.length);

const quick = process.argv.includes('--quick');
const rounds = quick ? 1 : 3;
/** Groups of rows, all by default: `-- --only=rates,idle`. */
const only = option('only')?.split(',');
/** The folder of a checkout, installed and built, that this one is compared with; nothing else is measured then. */
const against = option('against');
if (against !== undefined && (against === '' || !existsSync(join(against, 'dist/index.js')))) {
  throw new TypeError(
    `--against takes the folder of a checkout that is installed and built, not ${against || 'nothing'}`,
  );
}
if (against !== undefined && only) throw new TypeError('--only has no meaning beside --against: leave one of them out');

const setup = await openSetup();
const run = createRun(setup, quick);

async function measureRows(): Promise<void> {
  const groups = Object.entries({ ...senderRows(run), ...workerRows(run), ...largeRows(run) });
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

const [cpu] = cpus();
report(
  `Deliveries, on one machine with everything on it: ${cpus().length} × ${cpu?.model}, Node ${process.versions.node}; every delivery and signature checked`,
  run.notes.figures(),
);
