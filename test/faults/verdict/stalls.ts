import { writeFile } from 'node:fs/promises';
import type { Arrival } from '../receivers.ts';
import type { Tally } from './deliveries.ts';

/** The longest waits of a row. Milliseconds. */
export interface Stalls {
  /** That a publication took to be answered, yes or no. */
  readonly publish: number;
  /** From when an event was accepted until it first arrived at a webhook. */
  readonly firstArrival: number;
}

export interface Row extends Tally {
  readonly name: string;
  readonly stalls: Stalls;
}

/** The longest time from acceptance to the first arrival. What never arrived is lost or stuck, and counts there. */
export function longestFirstArrival(accepted: ReadonlyMap<string, number>, arrivals: readonly Arrival[]): number {
  const first = new Map<string, Arrival>();
  for (const arrival of arrivals) {
    const key = `${arrival.eventId} ${arrival.webhook}`;
    const known = first.get(key);
    if (!known || arrival.at < known.at) first.set(key, arrival);
  }
  const waits = [...first.values()].map(({ eventId, at }) => at - (accepted.get(eventId) ?? at));
  return waits.reduce((longest, wait) => Math.max(longest, wait), 0);
}

const seconds = (milliseconds: number) => (milliseconds / 1_000).toFixed(1);

export function describeStalls({ publish, firstArrival }: Stalls): string {
  return `longest publish ${seconds(publish)} s · longest first arrival ${seconds(firstArrival)} s`;
}

/** A table of the rows, as Markdown. */
export function table(rows: readonly Row[]): string {
  const lines = rows.map(
    ({ name, faults, events, duplicates, stalls }) =>
      `| ${name} | ${faults} | ${events} | ${duplicates} | ${seconds(stalls.publish)} s | ${seconds(stalls.firstArrival)} s |`,
  );
  const head = '| fault | times | events | duplicates | longest publish | longest first arrival |';
  return [head, '|---|---|---|---|---|---|', ...lines].join('\n');
}

export async function writeRows(path: string, seed: number, rows: readonly Row[]): Promise<void> {
  await writeFile(path, `${JSON.stringify({ seed, rows }, null, 2)}\n`);
}
