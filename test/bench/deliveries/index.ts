import { cpus } from 'node:os';
import { report } from '../report.ts';
import { largeRows } from './large-rows.ts';
import { createRun } from './run.ts';
import { senderRows } from './sender-rows.ts';
import { openSetup } from './setup.ts';
import { workerRows } from './worker-rows.ts';

/** What deliveries cost, beside stock Agenda. Needs the built package: `npm run bench:deliveries`. */

const quick = process.argv.includes('--quick');
const rounds = quick ? 1 : 3;
/** Groups of rows, all by default: `-- --only=rates,idle`. */
const only = process.argv
  .find((argument) => argument.startsWith('--only='))
  ?.slice('--only='.length)
  .split(',');

const setup = await openSetup();
const run = createRun(setup, quick);
const groups = Object.entries({ ...senderRows(run), ...workerRows(run), ...largeRows(run) });

for (let i = 0; i < rounds; i += 1) {
  for (const [name, measure] of groups) {
    if (only && !only.includes(name)) continue;
    const started = performance.now();
    await measure();
    console.error(`  (${name}: ${((performance.now() - started) / 1_000).toFixed(0)} s)`);
  }
}
await setup.close();

const [cpu] = cpus();
report(
  `Deliveries, on one machine with everything on it: ${cpus().length} × ${cpu?.model}, Node ${process.versions.node}; every delivery and signature checked`,
  run.notes.figures(),
);
