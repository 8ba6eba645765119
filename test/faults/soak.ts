import { setTimeout as sleep } from 'node:timers/promises';
import type { Crew } from './crew.ts';
import type { Fault, Scene } from './faults.ts';
import { canTellGrowth, growth, handlesOf, type Reading, timersOf } from './flatness.ts';
import type { Tally } from './ledger.ts';

/** How often something goes wrong. Milliseconds. */
const faultEvery = 20_000;
const minute = 60_000;
/** Rows that end workers: there is nothing to measure in a process that is young. */
const endsWorkers = /^(worker |SIGTERM)/;
/** Those come in the first part of the time, this often. */
const deadlyPart = 0.25;
const deadlyEvery = 5;

/** Everything that goes wrong, one after another for so long, and what the workers hold meanwhile. */
export function createSoak(rows: readonly Fault[], minutes: number) {
  const readings = new Map<number, Reading[]>();
  const harmless = rows.filter(({ name }) => !endsWorkers.test(name));
  const deadly = rows.filter(({ name }) => endsWorkers.test(name));

  async function measure(crew: Crew, minutesIn: number): Promise<void> {
    for (const reading of await crew.readings()) {
      readings.set(reading.pid, [...(readings.get(reading.pid) ?? []), reading]);
      const { pid, rss, heapUsed, handles, warnings } = reading;
      const [inAll, heap] = [rss, heapUsed].map((bytes) => (bytes / 1024 / 1024).toFixed(1));
      const kinds = JSON.stringify(handles);
      console.log(
        `  minute ${minutesIn}: ${pid} rss ${inAll} MB · heap ${heap} MB · handles ${handlesOf(reading)} · timers ${timersOf(reading)} · warnings ${warnings} ${kinds}`,
      );
    }
  }

  async function watch(crew: Crew, until: Promise<unknown>): Promise<void> {
    let isOver = false;
    void until.finally(() => {
      isOver = true;
    });
    for (let minutesIn = 1; !isOver; minutesIn += 1) {
      await Promise.race([sleep(minute), until]);
      await measure(crew, minutesIn);
    }
  }

  async function breakThings(scene: Scene): Promise<number> {
    const started = performance.now();
    let faults = 0;
    for (let now = started; now - started < minutes * minute; now = performance.now()) {
      const isEarly = now - started < minutes * minute * deadlyPart;
      const fault = scene.random.pick(isEarly && faults % deadlyEvery === 0 ? deadly : harmless);
      console.log(`  ${Math.round((now - started) / 1_000)} s: ${fault.name}`);
      await fault.inject(scene, 1);
      faults += 1;
      await sleep(Math.max(0, faultEvery - (performance.now() - now)));
    }
    return faults;
  }

  let made = 0;
  const fault: Fault = {
    name: `soak of ${minutes} minutes`,
    short: 1,
    full: 1,
    async inject(scene) {
      const breaking = breakThings(scene);
      await watch(scene.crew, breaking);
      made = await breaking;
    },
  };
  return {
    fault,
    /** Adds what was made to happen, and what grew in the workers that lived to the end. */
    judge(row: Tally, crew: Crew): void {
      const lasting = crew.workers().map(({ pid = 0 }) => readings.get(pid) ?? []);
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
