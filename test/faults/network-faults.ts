import { setTimeout as sleep } from 'node:timers/promises';
import type { NetworkFault, Route } from './cluster/network.ts';
import type { Command } from './cluster/wire.ts';
import { type Fault, inDatabase, type Scene } from './faults.ts';

/** Milliseconds that a fault lasts, drawn anew each time. */
type Duration = (scene: Scene) => number;

const between =
  (least: number, most: number): Duration =>
  ({ random }) =>
    least + random.below(most - least);

/** What the network does, for how long, and to whom. */
interface NetworkRow extends Omit<NetworkFault, 'on'> {
  readonly lasts: Duration;
  /** @param primary the member that takes writes when it begins */
  readonly meets: (route: Route, primary: number, other: number) => boolean;
}

/** As long as it takes until everybody has noticed, or so long in the short form that all but the slowest have. */
const untilNoticed: Duration = ({ long, random }) => (long ? 7_000 : 5_000) + random.below(long ? 2_000 : 500);

const isClient = ({ from }: Route) => from === undefined;
const concerns = ({ from, to }: Route, member: number) => from === member || to === member;

/** How long the members and the workers have to find each other again: before the row ends, and before the next of many. Milliseconds. */
const recovery: Duration = ({ long }) => (long ? 5_000 : 1_000);

const inNetwork = ({ meets, lasts, ...fault }: NetworkRow): Fault['inject'] =>
  inDatabase(async (scene) => {
    const { cluster, random } = scene;
    const { index } = await cluster.primary();
    const other = (index + 1 + random.below(cluster.nodes.length - 1)) % cluster.nodes.length;
    const heal = cluster.network.inject({ ...fault, on: (route) => meets(route, index, other) });
    await sleep(lasts(scene));
    heal();
    await cluster.primary();
    await sleep(recovery(scene));
  });

/** Every kind of write whose answer can be lost, by the driver's command. */
const writes: readonly Required<Command>[] = [
  { name: 'insert', collection: 'gateway_events' },
  { name: 'insert', collection: 'gateway_deliveries' },
  { name: 'commitTransaction', collection: '' },
  { name: 'update', collection: 'gateway_deliveries' },
  { name: 'update', collection: 'gateway_jobs' },
  { name: 'findAndModify', collection: 'gateway_credit_accounts' },
  { name: 'insert', collection: 'gateway_credit_ledger' },
  { name: 'insert', collection: 'gateway_usage' },
  { name: 'update', collection: 'gateway_usage' },
  { name: 'update', collection: 'gateway_usage_counters' },
];
/** One of each kind is sent in this time while events are published, on a busy machine too. Milliseconds. */
const sentWithin = 60_000;

async function loseAnswer({ cluster }: Scene, { name, collection }: Required<Command>): Promise<void> {
  const isMeant = (command: Command) => command.name === name && (command.collection ?? '') === collection;
  const loss = cluster.network.loseAnswers(isMeant, 1);
  const deadline = performance.now() + sentWithin;
  while (loss.left() > 0 && performance.now() < deadline) await sleep(10);
  loss.stop();
  if (loss.left() > 0) throw new Error(`no ${name} ${collection} was sent in ${sentWithin} ms`);
  await sleep(500);
}

/** What networks do: between members, between the workers and members, and everywhere. */
export const networkFaults: readonly Fault[] = [
  {
    name: 'primary partitioned from the other members',
    short: 1,
    full: 10,
    inject: inNetwork({
      action: 'swallow',
      meets: (route, primary) => !isClient(route) && concerns(route, primary),
      lasts: untilNoticed,
    }),
  },
  {
    name: 'workers partitioned from the primary',
    short: 1,
    full: 8,
    inject: inNetwork({
      action: 'swallow',
      meets: (route, primary) => isClient(route) && route.to === primary,
      lasts: between(4_000, 7_000),
    }),
  },
  {
    name: 'everything cut',
    short: 1,
    full: 2,
    inject: inNetwork({ action: 'cut', meets: () => true, lasts: ({ long }) => (long ? 60_000 : 5_000) }),
  },
  {
    name: 'packets held, and then let through',
    short: 1,
    full: 8,
    inject: inNetwork({ action: 'hold', meets: () => true, lasts: between(3_000, 5_000) }),
  },
  {
    name: 'open connections swallowed for good, new ones pass',
    short: 1,
    full: 10,
    inject: inNetwork({ action: 'swallow', openOnly: true, meets: isClient, lasts: untilNoticed }),
  },
  {
    name: 'open connections held, new ones pass, and then let through',
    short: 1,
    full: 10,
    inject: inNetwork({ action: 'hold', openOnly: true, meets: isClient, lasts: between(3_000, 8_000) }),
  },
  {
    name: 'open connections of the pool swallowed, those of monitors and new ones pass',
    short: 1,
    full: 10,
    inject: inNetwork({
      action: 'swallow',
      openOnly: true,
      meets: (route) => isClient(route) && route.kind === 'pool',
      lasts: untilNoticed,
    }),
  },
  {
    name: 'what workers send is swallowed',
    short: 1,
    full: 8,
    inject: inNetwork({ action: 'swallow', way: 'up', meets: isClient, lasts: between(3_000, 5_000) }),
  },
  {
    name: 'what workers are answered is swallowed',
    short: 1,
    full: 8,
    inject: inNetwork({ action: 'swallow', way: 'down', meets: isClient, lasts: between(3_000, 5_000) }),
  },
  {
    name: 'one member slow',
    short: 1,
    full: 8,
    inject: inNetwork({
      action: 'delay',
      delay: 500,
      meets: (route, _primary, other) => concerns(route, other),
      lasts: between(3_000, 6_000),
    }),
  },
  {
    name: 'primary slow',
    short: 1,
    full: 8,
    inject: inNetwork({
      action: 'delay',
      delay: 300,
      meets: (route, primary) => concerns(route, primary),
      lasts: between(3_000, 6_000),
    }),
  },
  {
    name: 'answers to writes lost',
    short: writes.length,
    full: 12 * writes.length,
    async inject(scene, times) {
      for (let i = 0; i < times; i += 1) {
        const write = writes[i % writes.length];
        if (write) await scene.disturbances.during(() => loseAnswer(scene, write));
      }
    },
  },
];
