import type { Bound, Sample } from '../../scale/growth.ts';
import type { Setup } from '../deliveries/setup.ts';
import type { Gateways, Load } from '../scale/gateways.ts';
import type { Members } from '../scale/members.ts';
import { timesOf } from '../scale/times.ts';

/**
 * What is sampled: label, unit, and by how much its second half may grow. What waits in memory at one moment differs, so small
 * amounts are allowed; times vary most on a shared machine.
 */
export const series = {
  resident: ['resident memory of the gateways', 'MB', { share: 0.1, amount: 10 }],
  heapUsed: ['heap of the gateways in use after a collection', 'MB', { share: 0.1, amount: 5 }],
  handles: ['handles of the gateways', '', { share: 0.1, amount: 10 }],
  files: ['file descriptors of the gateways', '', { share: 0.1, amount: 10 }],
  latenessP50: ['start of the attempt after it was due, p50', 'ms', { share: 0.25, amount: 2 }],
  latenessP99: ['start of the attempt after it was due, p99', 'ms', { share: 0.5, amount: 20 }],
  firstByteP50: ['request to publish to first byte, p50', 'ms', { share: 0.25, amount: 2 }],
  firstByteP99: ['request to publish to first byte, p99', 'ms', { share: 0.5, amount: 20 }],
  database: ['database: data, indexes and files', 'MB', { share: 0.1, amount: 20 }],
  documents: ['events and deliveries kept', '', { share: 0.1, amount: 1_000 }],
  mongod: ['resident memory of the three mongod', 'MB', { share: 0.1, amount: 50 }],
} as const satisfies Record<string, readonly [string, string, Bound]>;

export type SeriesName = keyof typeof series;
export const seriesNames = Object.keys(series) as SeriesName[];

/** What was found at one time. */
export type SoakSample = { readonly minute: number } & Readonly<Record<SeriesName, number>>;

interface Held {
  readonly rss: number;
  readonly heapUsed: number;
  readonly handles: number;
  readonly files: number;
}

const megabytes = (bytes: number) => bytes / 1e6;

/** Looks at everything, just after a load has arrived. */
export async function takeSample(
  { setup, gateways, members }: { setup: Setup; gateways: Gateways; members: Members },
  minute: number,
  load: Load,
): Promise<SoakSample> {
  const held = await Promise.all(gateways.all.map(({ sender }) => sender.call<Held>('held')));
  const sum = (name: keyof Held) => held.reduce((before, one) => before + one[name], 0);
  const kept = ['gateway_events', 'gateway_deliveries'].map((name) => setup.connection.collection(name));
  const counts = await Promise.all(kept.map((collection) => collection.estimatedDocumentCount()));
  return {
    minute,
    resident: megabytes(sum('rss')),
    heapUsed: megabytes(sum('heapUsed')),
    handles: sum('handles'),
    files: sum('files'),
    ...(await timesOf(setup, load)),
    database: megabytes(await members.databaseSize()),
    documents: counts.reduce((before, count) => before + count, 0),
    mongod: megabytes(await members.residentMemory()),
  };
}

export const samplesOf = (samples: readonly SoakSample[], name: SeriesName): Sample[] =>
  samples.map((sample) => ({ minute: sample.minute, value: sample[name] }));
