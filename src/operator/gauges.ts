import { Gauge, type Registry } from 'prom-client';
import type { PoolUsage } from '../mongo/connection/connection.ts';
import type { UpstreamState } from '../proxy/proxy.ts';
import { readVersion } from '../version.ts';
import type { BacklogSize } from './backlog.ts';
import { type EventLoopDelay, measureEventLoopDelay } from './process-record.ts';

/** What the gauges show of the health. Durations are milliseconds. */
interface HealthReadings {
  readonly checks: Readonly<Record<string, 'ok' | 'degraded' | 'failed' | 'off' | 'unknown'>>;
  readonly skew: number | undefined;
  readonly writeTime: number | undefined;
  /** A share of 1. */
  readonly freeDisk: number | undefined;
}

/** What the gauges show at this moment. */
export interface GaugeReadings {
  /** Attempts that are being sent in this process, how many may be at once, and those that it holds. */
  readonly attempts: { readonly sending: number; readonly limit: number; readonly held: number };
  readonly upstreams: readonly UpstreamState[];
  readonly databaseAvailable: boolean;
  readonly pool: PoolUsage;
  readonly workerLive: boolean;
  readonly health: () => Promise<HealthReadings>;
  /** What all processes have to do. `undefined` where the database does not say so in time. */
  readonly backlog: () => Promise<BacklogSize | undefined>;
}

const labelNames = ['upstream', 'state', 'check', 'version'] as const;

/** A gauge that is read at each scrape. With a label, even one that it does not use, it has no value until one is set. */
function gauge(
  registers: Registry[],
  name: string,
  help: string,
  collect: (gauge: Gauge<(typeof labelNames)[number]>) => unknown,
) {
  return new Gauge({
    name,
    help,
    registers,
    labelNames,
    async collect() {
      this.reset();
      await collect(this);
    },
  });
}

/** One look for all gauges of one scrape. */
function shared<T>(ask: () => Promise<T>): () => Promise<T> {
  let asking: Promise<T> | undefined;
  return () => {
    asking ??= ask().finally(() => {
      asking = undefined;
    });
    return asking;
  };
}

function addBacklog(registers: Registry[], read: () => GaugeReadings): void {
  const look = shared(() => read().backlog());
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

/** The value of each result; `off` and `unknown` have none. */
const healthValues: Readonly<Record<string, number>> = { ok: 1, degraded: 0, failed: 0 };

function addHealth(registers: Registry[], read: () => GaugeReadings): void {
  const look = shared(() => read().health());
  const help = 'Result of a health check: 1 is ok, 0 degraded or failed; absent if off or unknown';
  gauge(registers, 'gateway_health', help, async (shown) => {
    for (const [check, result] of Object.entries((await look()).checks)) {
      const value = healthValues[result];
      if (value !== undefined) shown.set({ check }, value);
    }
  });
  const figures = [
    [
      'gateway_clock_skew_seconds',
      "By how much this machine's clock is certainly ahead of the database's; negative where it is behind",
      ({ skew }: HealthReadings) => skew && skew / 1_000,
    ],
    [
      'gateway_database_write_seconds',
      'How long a write took until a majority had it in its journal, measured every 5 s at most',
      ({ writeTime }: HealthReadings) => writeTime && writeTime / 1_000,
    ],
    [
      'gateway_database_disk_free_ratio',
      "How much of the primary's disk is free, as a share of 1",
      ({ freeDisk }: HealthReadings) => freeDisk,
    ],
  ] as const;
  for (const [name, meaning, figureOf] of figures) {
    gauge(registers, name, meaning, async (shown) => {
      const value = figureOf(await look());
      if (value !== undefined) shown.set(value);
    });
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

/** Between two looks at the event loop. Milliseconds. */
const eventLoopResolution = 20;

/** The event loop's delay since the last scrape. Measured from the first scrape on. */
function addEventLoop(registers: Registry[]): void {
  let delay: EventLoopDelay | undefined;
  const look = shared(async () => {
    delay ??= measureEventLoopDelay(eventLoopResolution);
    return delay.read();
  });
  for (const [name, part, meaning] of [
    ['gateway_event_loop_delay_seconds', 'p99', "The event loop's 99th percentile of delay since the last scrape"],
    ['gateway_event_loop_delay_max_seconds', 'max', "The event loop's longest delay since the last scrape"],
  ] as const) {
    gauge(registers, name, meaning, async (shown) => {
      const measured = await look();
      if (measured) shown.set(measured[part]);
    });
  }
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
  gauge(registers, 'gateway_attempts_limit', 'Attempts that this process may send at once', (shown) =>
    shown.set(read().attempts.limit),
  );
  gauge(
    registers,
    'gateway_attempts_held',
    'Attempts that this process holds: sent, claimed ahead, or being recorded',
    (shown) => shown.set(read().attempts.held),
  );
  gauge(registers, 'gateway_upstream_calls', 'Calls under way to an upstream in this process', (shown) => {
    for (const { name, calls } of read().upstreams) shown.set({ upstream: name }, calls);
  });
  gauge(
    registers,
    'gateway_upstream_calls_waiting',
    'Model calls to an upstream in this process whose response has not begun',
    (shown) => {
      for (const { name, waiting } of read().upstreams) shown.set({ upstream: name }, waiting);
    },
  );
  gauge(registers, 'gateway_upstream_breaker_open', "Whether an upstream's breaker keeps calls away", (shown) => {
    for (const { name, breaker } of read().upstreams) shown.set({ upstream: name }, flag(breaker !== 'closed'));
  });
  addPool(registers, read);
  gauge(registers, 'gateway_build_info', 'The version of the package that this process runs; always 1', (shown) =>
    shown.set({ version: readVersion() }, 1),
  );
  addBacklog(registers, read);
  addHealth(registers, read);
  addEventLoop(registers);
}
