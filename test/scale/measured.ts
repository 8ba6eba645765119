import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { median } from '../bench/report.ts';
import type { Growth } from './growth.ts';

/** Of a figure that was measured several times. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export const spreadOf = (values: readonly number[]): Spread => ({
  median: median(values),
  low: Math.min(...values),
  high: Math.max(...values),
});

/** What is measured of deliveries, with the label and the unit that tables show. "Of the primary" is one member alone. */
export const deliveryFigures = {
  rate: ['deliveries a second, in all', ''],
  ratePerProcess: ['deliveries a second, of each process', ''],
  busy: ['share of the CPU of the machine in use, load included', '%'],
  gatewayCpu: ['CPU a delivery: gateways', 'ms'],
  primaryCpu: ['CPU a delivery: primary', 'ms'],
  secondaryCpu: ['CPU a delivery: each secondary', 'ms'],
  receiverCpu: ['CPU a delivery: receiver', 'ms'],
  requests: ['requests to the primary a delivery, replication included', ''],
  operations: ['operations on the primary a delivery', ''],
  networkIn: ['bytes to the primary a delivery', 'B'],
  networkOut: ['bytes from the primary a delivery, replication included', 'B'],
  journalBytes: ['journal written by the primary a delivery', 'B'],
  dataBytes: ['data files written by the primary a delivery', 'B'],
  diskBytes: ['stored on each member a delivery, with indexes', 'B'],
  receiverBytes: ['bytes to the receiver a delivery', 'B'],
  peakMemory: ['peak memory of each process', 'MB'],
  latenessP50: ['at half of the rate, start of the attempt after it was due, p50', 'ms'],
  latenessP99: ['the same, p99', 'ms'],
  firstByteP50: ['at half of the rate, request to publish to first byte at the receiver, p50', 'ms'],
  firstByteP99: ['the same, p99', 'ms'],
} as const satisfies Record<string, readonly [string, string]>;

export type DeliveryFigures = Readonly<Record<keyof typeof deliveryFigures, number>>;

/** What is measured of relayed chats. */
export const relayFigures = {
  rate: ['requests a second', ''],
  processCpu: ['CPU a request: processes that serve', 'µs'],
  commandCpu: ['CPU a request: the command that hands out connections', 'µs'],
  primaryCpu: ['CPU a request: primary', 'µs'],
  loadCpu: ['CPU a request: load and upstream', 'µs'],
  firstByteP50: ['time to the first byte, p50', 'ms'],
  firstByteP99: ['time to the first byte, p99', 'ms'],
} as const satisfies Record<string, readonly [string, string]>;

export type RelayFigures = Readonly<Record<keyof typeof relayFigures, number>>;

/** Where and when something was measured. */
export interface Origin {
  readonly date: string;
  readonly commit: string;
  readonly machine: string;
}

export interface ScaleMeasured extends Origin {
  readonly rounds: number;
  /** Of each load. */
  readonly seconds: number;
  readonly deliveries: readonly {
    readonly processes: number;
    /** That each event goes to. */
    readonly webhooks: number;
    readonly figures: Readonly<Record<keyof DeliveryFigures, Spread>>;
  }[];
  readonly relay: readonly {
    readonly workers: number;
    readonly figures: Readonly<Record<keyof RelayFigures, Spread>>;
  }[];
}

export interface SoakMeasured extends Origin {
  readonly minutes: number;
  readonly processes: number;
  /** Deliveries a second. */
  readonly rate: number;
  readonly deliveries: number;
  readonly series: readonly ({ readonly name: string; readonly unit: string } & Growth)[];
}

export interface Measured {
  readonly scale: ScaleMeasured;
  readonly soak: SoakMeasured;
}

const file = fileURLToPath(new URL('./measured.json', import.meta.url));

/** What the benchmarks found last, by `--write`. */
export function readMeasured(): Measured {
  return JSON.parse(readFileSync(file, 'utf8'));
}

/** Keeps six digits: more would change with every run and say nothing. */
const rounded = (_key: string, value: unknown) => (typeof value === 'number' ? Number(value.toPrecision(6)) : value);

/** Replaces what one benchmark found before. */
export function writeMeasured(part: Partial<Measured>): void {
  const before = JSON.parse(readFileSync(file, 'utf8'));
  writeFileSync(file, `${JSON.stringify({ ...before, ...part }, rounded, 2)}\n`);
}
