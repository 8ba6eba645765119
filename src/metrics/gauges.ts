import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { Gauge, type Registry } from 'prom-client';
import type { BacklogSize } from '../deliveries/backlog-size.ts';
import type { PoolUsage } from '../mongo/connection/pools.ts';
import type { UpstreamState } from '../proxy/proxy.ts';

/** What the gauges show at this moment. */
export interface GaugeReadings {
  /** Attempts that are being sent in this process, and those that it holds. */
  readonly attempts: { readonly sending: number; readonly held: number };
  readonly upstreams: readonly UpstreamState[];
  readonly databaseAvailable: boolean;
  readonly pool: PoolUsage;
  readonly workerLive: boolean;
  /** What all processes have to do. `undefined` where the database does not say so in time. */
  readonly backlog: () => Promise<BacklogSize | undefined>;
}

/** A gauge that is read at each scrape. With a label, even one that it does not use, it has no value until one is set. */
function gauge(
  registers: Registry[],
  name: string,
  help: string,
  collect: (gauge: Gauge<'upstream' | 'state'>) => unknown,
) {
  return new Gauge({
    name,
    help,
    registers,
    labelNames: ['upstream', 'state'],
    async collect() {
      this.reset();
      await collect(this);
    },
  });
}

function addBacklog(registers: Registry[], read: () => GaugeReadings): void {
  /** One look at the database for all gauges of one scrape. */
  let looking: Promise<BacklogSize | undefined> | undefined;
  function look(): Promise<BacklogSize | undefined> {
    looking ??= read()
      .backlog()
      .finally(() => {
        looking = undefined;
      });
    return looking;
  }
  for (const [kind, what] of [
    ['deliveries', 'Deliveries that are due'],
    ['events', 'Events whose deliveries have not been made'],
  ] as const) {
    const count = `${what}, and that no process has claimed; counted up to 10,000`;
    gauge(registers, `gateway_${kind}_due`, count, async (shown) => {
      const backlog = await look();
      // no value is better than a wrong one
      if (backlog) shown.set(backlog[kind].count);
    });
    gauge(
      registers,
      `gateway_${kind}_oldest_due_seconds`,
      'How long the oldest of these has been due',
      async (shown) => {
        const backlog = await look();
        if (backlog) shown.set(backlog[kind].oldest);
      },
    );
  }
}

function addPool(registers: Registry[], read: () => GaugeReadings): void {
  gauge(
    registers,
    'gateway_database_connections',
    "Connections of the gateway's pools to the servers of the database, by state",
    (shown) => {
      const { inUse, idle, opening } = read().pool;
      shown.set({ state: 'in_use' }, inUse);
      shown.set({ state: 'idle' }, idle);
      shown.set({ state: 'opening' }, opening);
    },
  );
  gauge(
    registers,
    'gateway_database_connection_waits',
    'Commands that wait for a connection, because all of a pool are in use',
    (shown) => shown.set(read().pool.waiting),
  );
}

/** Between two looks at the event loop, which its delays include. Milliseconds. */
const resolution = 20;

/** The event loop's delay since the last scrape. Measured from the first scrape on. */
function addEventLoop(registers: Registry[]): void {
  let delays: IntervalHistogram | undefined;
  gauge(
    registers,
    'gateway_event_loop_delay_seconds',
    "The event loop's 99th percentile of delay since the last scrape",
    (shown) => {
      if (delays) shown.set(Math.max(0, delays.percentile(99) / 1e9 - resolution / 1e3));
      else {
        delays = monitorEventLoopDelay({ resolution });
        delays.enable();
      }
      delays.reset();
    },
  );
}

/** Adds the gauges, which are read at each scrape. */
export function addGauges(registry: Registry, read: () => GaugeReadings): void {
  const registers = [registry];
  const flag = (on: boolean) => (on ? 1 : 0);
  gauge(registers, 'gateway_database_available', 'Whether a primary of the database is known', (shown) =>
    shown.set(flag(read().databaseAvailable)),
  );
  gauge(registers, 'gateway_worker_live', 'Whether this process makes attempts and its sweep runs', (shown) =>
    shown.set(flag(read().workerLive)),
  );
  gauge(registers, 'gateway_attempts_sending', 'Attempts that this process is sending', (shown) =>
    shown.set(read().attempts.sending),
  );
  gauge(
    registers,
    'gateway_attempts_held',
    'Attempts that this process holds: sent, claimed ahead, or being recorded',
    (shown) => shown.set(read().attempts.held),
  );
  gauge(registers, 'gateway_upstream_calls', 'Model calls under way to an upstream in this process', (shown) => {
    for (const { name, calls } of read().upstreams) shown.set({ upstream: name }, calls);
  });
  gauge(registers, 'gateway_upstream_breaker_open', "Whether an upstream's breaker keeps calls away", (shown) => {
    for (const { name, breakerOpen } of read().upstreams) shown.set({ upstream: name }, flag(breakerOpen));
  });
  addPool(registers, read);
  addBacklog(registers, read);
  addEventLoop(registers);
}
