import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, LoadedScene } from './faults.ts';
import type { Tally } from './verdict/deliveries.ts';
import { canTellGrowth, growth, handlesOf, type Reading, timersOf } from './verdict/flatness.ts';
import type { Workers } from './workers/workers.ts';

/** How often something goes wrong. Milliseconds. */
const faultEvery = 20_000;
const minute = 60_000;
/** How often it is measured what workers hold, at rest: what they do then is over. Milliseconds. */
const measureEvery = 2 * minute;
/** How long they have been at rest by then: connections that nobody uses are closed. Milliseconds. */
const calm = 5_000;
/** Rows that end workers: there is nothing to measure in a process that is young. */
const endsWorkers = /^(worker |SIGTERM)/;
/** Those come in the first part of the time, this often. */
const deadlyPart = 0.25;
const deadlyEvery = 5;

/** Everything that goes wrong, one after another for so long, and what the workers hold at rest between them. */
export function createSoak(rows: readonly Fault[], minutes: number) {
  const readings = new Map<number, Reading[]>();
  const harmless = rows.filter(({ name }) => !endsWorkers.test(name));
  const deadly = rows.filter(({ name }) => endsWorkers.test(name));

  async function measure(workers: Workers, minutesIn: number): Promise<void> {
    for (const reading of await workers.readings()) {
      readings.set(reading.pid, [...(readings.get(reading.pid) ?? []), reading]);
      const { pid, rss, heapUsed, handles, warnings } = reading;
      const [inAll, heap] = [rss, heapUsed].map((bytes) => (bytes / 1024 / 1024).toFixed(1));
      const kinds = JSON.stringify(handles);
      console.log(
        `  minute ${minutesIn}: ${pid} rss ${inAll} MB · heap ${heap} MB · handles ${handlesOf(reading)} · timers ${timersOf(reading)} · warnings ${warnings} ${kinds}`,
      );
    }
  }

  async function breakThings(scene: LoadedScene): Promise<number> {
    const started = performance.now();
    const length = minutes * minute;
    let faults = 0;
    let measured = started;
    for (let now = started; now - started < length; now = performance.now()) {
      const isEarly = now - started < length * deadlyPart;
      const fault = scene.random.pick(isEarly && faults % deadlyEvery === 0 ? deadly : harmless);
      console.log(`  ${Math.round((now - started) / 1_000)} s: ${fault.name}`);
      await fault.inject(scene, 1);
      faults += 1;
      await sleep(Math.max(0, faultEvery - (performance.now() - now)));
      if (performance.now() - measured < measureEvery) continue;
      measured = performance.now();
      await scene.atRest(async () => {
        await sleep(calm);
        await measure(scene.workers, Math.round((measured - started) / minute));
      });
    }
    return faults;
  }

  let made = 0;
  const fault: Fault = {
    name: `soak of ${minutes} minutes`,
    short: 1,
    full: 1,
    async inject(scene) {
      made = await breakThings(scene);
    },
  };
  return {
    fault,
    /** Adds what was made to happen, and what grew in the workers that lived to the end. */
    judge(row: Tally, workers: Workers): void {
      const lasting = workers.running().map(({ pid = 0 }) => readings.get(pid) ?? []);
      const judged = lasting.filter(canTellGrowth);
      const grown = judged.flatMap(growth);
      const unjudged = lasting.length - judged.length;
      console.log(`  ${judged.length} workers judged, ${unjudged} too young${grown.length === 0 ? '' : ', not flat'}`);
      row.faults = made;
      row.wrong += grown.length;
      row.notes.unshift(...grown);
    },
  };
}
