import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { growthOf } from '../../scale/growth.ts';
import { type SoakMeasured, writeMeasured } from '../../scale/measured.ts';
import { soakSection } from '../../scale/measured-section.ts';
import { positiveNumber, showHelp, wholeNumbers } from '../arguments.ts';
import { openSetup } from '../deliveries/setup.ts';
import { originOf } from '../origin.ts';
import { startGateways } from '../scale/gateways.ts';
import { openMembers } from '../scale/members.ts';
import { expireAfter } from './expire.ts';
import { type SoakSample, samplesOf, series, seriesNames, takeSample } from './sample.ts';

/**
 * Gateways at half of their top rate for a long time, with a replica set of three members: whether memory, handles, lateness and the
 * database stay as they are. Needs the built package: `npm run bench:soak`. Ends with status 1 if something grows. `--write` puts
 * what it found into test/scale/measured.json, for docs/scale.md.
 */

showHelp('bench:soak', {
  '--minutes=<number>': 'how long, 30 without it',
  '--processes=<number>': 'how many gateways, 2 without it',
  '--rate=<number>': 'deliveries a second, half of the top rate without it',
  '--every=<seconds>': 'between samples, 30 without it',
  '--json=<file>': 'writes the samples there',
  '--write': 'writes the figures for docs/scale.md',
});
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    processes: { type: 'string', default: '2' },
    /** Deliveries a second; half of what a burst makes if it is left out. */
    rate: { type: 'string' },
    /** Seconds between samples. */
    every: { type: 'string', default: '30' },
    json: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
});
const minutes = positiveNumber('minutes', values.minutes);
const every = positiveNumber('every', values.every);
const [processes = 1] = wholeNumbers('processes', values.processes);
/** A sixth of it, so that the second half begins long after the first documents have expired; at most 2 minutes. Milliseconds. */
const keptFor = Math.min(120_000, (minutes * 60_000) / 6);
/** Of the burst that finds the top rate, and of the one before it. Seconds. */
const [warmUp, burst] = [3, 10];

const setup = await openSetup(3);
const members = await openMembers(setup);
const gateways = await startGateways(setup, processes, { deliveries: { retentionDays: 1 } });

async function halfOfTopRate(): Promise<number> {
  await gateways.saturate(1, warmUp);
  const { arrivals, seconds } = await gateways.saturate(1, Math.min(burst, minutes * 10));
  return arrivals.length / seconds / 2;
}

const rate = values.rate === undefined ? await halfOfTopRate() : positiveNumber('rate', values.rate);
console.error(`  ${processes} gateways, ${rate.toFixed(0)} deliveries a second, for ${minutes} minutes`);
const endExpiry = expireAfter(setup, keptFor);
const steady = await gateways.createSteadyLoad(1, rate);
const started = performance.now();
const minutesSoFar = () => (performance.now() - started) / 60_000;

const samples: SoakSample[] = [];
let deliveries = 0;
while (minutesSoFar() < minutes) {
  const load = await steady(every);
  deliveries += load.arrivals.length;
  const sample = await takeSample({ setup, gateways, members }, minutesSoFar(), load);
  samples.push(sample);
  console.error(
    `  ${Object.entries(sample)
      .map(([name, value]) => `${name} ${value.toFixed(1)}`)
      .join(', ')}`,
  );
}
await endExpiry();
await gateways.close();
await members.close();
await setup.close();

const soak: SoakMeasured = {
  ...originOf(),
  minutes,
  processes,
  rate,
  deliveries,
  series: seriesNames.map((key) => {
    const [name, unit, bound] = series[key];
    return { name, unit, ...growthOf(samplesOf(samples, key), bound) };
  }),
};
console.log(soakSection({ soak }));
if (values.json) writeFileSync(values.json, `${JSON.stringify({ ...soak, samples }, null, 2)}\n`);
if (values.write) writeMeasured({ soak });
const growing = soak.series.filter(({ isFlat }) => !isFlat).map(({ name }) => name);
console.log(growing.length === 0 ? '\nFlat.' : `\nNot flat: ${growing.join('; ')}.`);
process.exitCode = growing.length === 0 ? 0 : 1;
