import {
  type Assumptions,
  type Capacity,
  capacityFor,
  type DeliveryCost,
  ratePerProcess,
  ratesPerReplicaSet,
  resources,
} from './capacity.ts';
import { markdownTable } from './markdown-table.ts';
import { type Measured, readMeasured, type ScaleMeasured } from './measured.ts';

/** What docs/scale.md assumes. Prices are round numbers of the order of large clouds' list prices in 2026. */
export const assumed: Assumptions = {
  used: 0.6,
  retentionDays: 30,
  memberCores: 16,
  volumeWrites: 250e6,
  volumeSize: 16e12,
  machineNetwork: 1.25e9,
  shardOverhead: 1.3,
  mongosCores: 0.25,
  configCores: 2,
  corePrice: 30,
  storagePrice: 0.1,
  receiverTrafficPrice: 0.05,
  zoneTrafficPrice: 0.01,
};

const shortRetentionDays = 3;

const number = (value: number, digits = 0) =>
  value.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: digits });
const percent = (share: number) => `${number(share * 100, share < 0.1 ? 1 : 0)} %`;
/** Three significant digits: the model is no more exact. */
const about = (value: number) => number(Number(value.toPrecision(3)), value < 10 ? 1 : 0);
const dollars = (value: number) => `$${number(Number(value.toPrecision(2)))}`;

const units = [
  ['PB', 1e15],
  ['TB', 1e12],
  ['GB', 1e9],
  ['MB', 1e6],
  ['kB', 1e3],
] as const;
function bytes(value: number): string {
  const [unit, size] = units.find(([, size]) => value >= size) ?? ['B', 1];
  return `${about(value / size)} ${unit}`;
}

/** @throws when the benchmark has not measured one process with so many webhooks */
function costOf({ deliveries }: ScaleMeasured, webhooks: number): DeliveryCost {
  const row = deliveries.find((one) => one.processes === 1 && one.webhooks === webhooks);
  if (!row)
    throw new Error(`measured.json has no row of 1 process and ${webhooks} webhooks: npm run bench:scale -- --write`);
  const { figures } = row;
  return {
    gatewayCpu: figures.gatewayCpu.median,
    primaryCpu: figures.primaryCpu.median,
    networkIn: figures.networkIn.median,
    networkOut: figures.networkOut.median,
    written: figures.journalBytes.median + figures.dataBytes.median,
    stored: figures.diskBytes.median,
    toReceiver: figures.receiverBytes.median,
  };
}

/** One row for each thing that a rate takes. */
function rowsOf(cost: DeliveryCost, given: Assumptions, rates: readonly number[]): string[][] {
  const found = rates.map((rate) => capacityFor(rate, cost, given));
  const short = rates.map((rate) => capacityFor(rate, cost, { ...given, retentionDays: shortRetentionDays }));
  const row = (name: string, cell: (of: Capacity) => string, of = found) => [name, ...of.map(cell)];
  return [
    row('cores that gateways use', (of) => about(of.gatewayCores)),
    row('worker processes', (of) => number(of.processes)),
    ...resources.map((resource) =>
      row(`${resource} of one replica set without shards`, (of) => percent(of.utilization[resource])),
    ),
    row('the first of these to saturate', (of) => of.saturatesFirst),
    row('shards (1: a replica set)', (of) => number(of.shards)),
    row('members, config servers included', (of) => number(of.members)),
    row('sweeps a second that each shard answers', (of) => about(of.sweeps)),
    row('stored a day, one copy', (of) => bytes(of.storedADay)),
    row(`stored in ${given.retentionDays} days, all copies`, (of) => bytes(of.storedInAll)),
    row('sent to receivers', (of) => `${bytes(of.bytesToReceivers)}/s`),
    row('a month: processes', (of) => dollars(of.price.processes)),
    row('a month: members', (of) => dollars(of.price.members)),
    row('a month: storage', (of) => dollars(of.price.storage)),
    row('a month: traffic', (of) => dollars(of.price.traffic)),
    row('a month: in all', (of) => dollars(of.price.sum)),
    row(`with ${shortRetentionDays} days kept: first to saturate`, (of) => of.saturatesFirst, short),
    row(`with ${shortRetentionDays} days kept: shards`, (of) => number(of.shards), short),
    row(`with ${shortRetentionDays} days kept: a month in all`, (of) => dollars(of.price.sum), short),
  ];
}

function tableOf(cost: DeliveryCost, given: Assumptions, rates: readonly number[]): string {
  const header = ['deliveries a second', ...rates.map((rate) => number(rate))];
  return markdownTable(header, rowsOf(cost, given, rates));
}

function limitsOf(cost: DeliveryCost, given: Assumptions): string {
  const rates = ratesPerReplicaSet(cost, given);
  const parts = resources.map((resource) => `${resource} ${about(rates[resource])}`).join(', ');
  return `One process makes ${about(ratePerProcess(cost, given))} a second; one replica set takes, by part: ${parts}.`;
}

function assumptions(given: Assumptions): string {
  return [
    `- Each part is used to ${percent(given.used)} at the rate in the table, which holds all day. Plan with the rate of your busiest hour.`,
    '- A delivery costs what it costs with one gateway process in the table of measurements, the database and the load on its two cores. Each process has a core of its own.',
    `- Each member has ${given.memberCores} cores, a volume of ${bytes(given.volumeSize)} that writes ${bytes(given.volumeWrites)}/s, and ${number((given.machineNetwork * 8) / 1e9)} Gbit/s of network each way; mongod uses all of its cores alike. mongod was not measured on more than two.`,
    '- What workers and lists read is in memory. A database larger than the memory was not measured.',
    '- Deliveries succeed at the first attempt. Where receivers fail, multiply by the attempts a delivery of the simulated days below.',
    `- Events and deliveries are as small as in the benchmark, and are kept ${given.retentionDays} days (\`deliveries.retentionDays\`).`,
    `- With shards, a delivery costs ${given.shardOverhead} times the CPU, because batches go to every shard; each busy core of a gateway needs ${given.mongosCores} of a core for \`mongos\`; three config servers have ${given.configCores} cores each. None of it was measured.`,
    `- Prices a month, in USD: a core with its memory ${given.corePrice}; a gigabyte of volume ${given.storagePrice}; a gigabyte to receivers ${given.receiverTrafficPrice}; a gigabyte between zones ${given.zoneTrafficPrice}, for half of what the primary receives and all that it sends. They are assumptions: put in yours.`,
    '- Nothing is counted for backups, load balancers, monitoring, or the machines of relayed calls.',
  ].join('\n');
}

/** The shapes of load that the benchmark measures. */
const shapes = [
  { webhooks: 1, title: 'Each event to one webhook' },
  { webhooks: 10, title: 'Each event to ten webhooks' },
] as const;

/** The model for some rates, in Markdown. */
export function capacitySection(
  rates: readonly number[] = [1_000, 10_000, 100_000],
  given: Assumptions = assumed,
  { scale }: Pick<Measured, 'scale'> = readMeasured(),
): string {
  const tables = shapes.map(({ webhooks, title }) => {
    const cost = costOf(scale, webhooks);
    return `${title}. ${limitsOf(cost, given)}\n\n${tableOf(cost, given, rates)}`;
  });
  return [...tables, `Assumed:\n\n${assumptions(given)}`].join('\n\n');
}
