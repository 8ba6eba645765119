import { Gauge, type Registry } from 'prom-client';
import type { DeliveryService } from '../deliveries/service.ts';
import type { AccountMemory } from '../fairness/account-shares.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { type Database, poolUsage } from '../mongo/connection/connection.ts';
import { withTimeout } from '../mongo/periodic.ts';
import type { ModelProxy, UpstreamState } from '../proxy/proxy.ts';
import { readVersion } from '../version.ts';
import type { BacklogReads, BacklogSize } from './backlog.ts';
import { type EventLoopDelay, measureEventLoopDelay } from './process-record.ts';

/** What the gauges are read from. */
interface GaugeSources {
  readonly deliveries: Pick<DeliveryService, 'scheduler' | 'due'>;
  readonly proxy: Pick<ModelProxy, 'states'>;
  readonly database: Pick<Database, 'connection'>;
  readonly access: Pick<DatabaseAccess, 'isUnavailable'>;
  readonly bodyMemory: Pick<AccountMemory, 'used'>;
  readonly backlog: Pick<BacklogReads, 'size'>;
  readonly checkHealth: () => Promise<{
    readonly health: { readonly checks: Readonly<Record<string, string>> };
    /** Milliseconds, and a share of 1. */
    readonly readings: Readonly<Partial<Record<'skew' | 'writeTime' | 'freeDisk', number | undefined>>>;
  }>;
}

const labelNames = ['upstream', 'state', 'check', 'version'] as const;

type Show = (gauge: Gauge<(typeof labelNames)[number]>) => unknown;
type GaugeRow = readonly [name: string, help: string, show: Show];
type Read = () => GaugeSources;

/** Shows one value. No value is better than a wrong one. */
function single(current: () => number | undefined | Promise<number | undefined>): Show {
  return async (gauge) => {
    const value = await current();
    if (value !== undefined) gauge.set(value);
  };
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

/** What this process does, and what it knows without a question to the database. */
function processGauges(read: Read): GaugeRow[] {
  const attempts = () => read().deliveries.scheduler.attempts;
  const pool = () => poolUsage(read().database.connection.getClient());
  const ofUpstreams =
    (current: (state: UpstreamState) => number): Show =>
    (gauge) => {
      for (const state of read().proxy.states()) gauge.set({ upstream: state.name }, current(state));
    };
  const connections: Show = (gauge) => {
    const { inUse, idle, opening } = pool();
    gauge.set({ state: 'in_use' }, inUse);
    gauge.set({ state: 'idle' }, idle);
    gauge.set({ state: 'opening' }, opening);
  };
  const available = single(() => Number(!read().access.isUnavailable));
  const live = single(() => Number(read().deliveries.due.isLive));
  const held = 'Attempts that this process holds: sent, claimed ahead, or being recorded';
  const waiting = 'Model calls to an upstream in this process whose response has not begun';
  const breakerOpen = ofUpstreams(({ breaker }) => Number(breaker !== 'closed'));
  const memory = 'Bytes of bodies and of messages on WebSockets that this process holds; limits.bodyMemory limits them';
  const states = "Connections of the gateway's pools to the servers of the database, by state";
  const waits = 'Commands that wait for a connection, because all of a pool are in use';
  const build: Show = (gauge) => gauge.set({ version: readVersion() }, 1);
  return [
    ['gateway_database_available', 'Whether a primary of the database is known', available],
    ['gateway_worker_live', 'Whether this process makes attempts and its sweep runs', live],
    ['gateway_attempts_sending', 'Attempts that this process is sending', single(() => attempts().sending)],
    ['gateway_attempts_limit', 'Attempts that this process may send at once', single(() => attempts().limit)],
    ['gateway_attempts_held', held, single(() => attempts().held)],
    ['gateway_upstream_calls', 'Calls under way to an upstream in this process', ofUpstreams(({ calls }) => calls)],
    ['gateway_upstream_calls_waiting', waiting, ofUpstreams((state) => state.waiting)],
    ['gateway_upstream_breaker_open', "Whether an upstream's breaker keeps calls away", breakerOpen],
    ['gateway_body_memory_bytes', memory, single(() => read().bodyMemory.used)],
    ['gateway_database_connections', states, connections],
    ['gateway_database_connection_waits', waits, single(() => pool().waiting)],
    ['gateway_build_info', 'The version of the package that this process runs; always 1', build],
  ];
}

/** How long the database may take to say how large the backlog is. Milliseconds. */
const backlogTimeout = 1_000;

function backlogGauges(read: Read): GaugeRow[] {
  const look = shared(async () => {
    const { access, backlog } = read();
    if (access.isUnavailable) return undefined;
    return withTimeout(backlog.size(), backlogTimeout, false).catch(() => undefined);
  });
  const of = (kind: keyof BacklogSize, what: string): GaugeRow[] => [
    [
      `gateway_${kind}_due`,
      `${what}, and that no process has claimed; counted up to 10,000`,
      single(async () => (await look())?.[kind].count),
    ],
    [
      `gateway_${kind}_oldest_due_seconds`,
      'How long the oldest of these has been due',
      single(async () => (await look())?.[kind].oldest),
    ],
  ];
  return [
    ...of('deliveries', 'Deliveries that are due'),
    ...of('events', 'Events whose deliveries have not been made'),
  ];
}

/** The value of each result; `off` and `unknown` have none. */
const healthValues: Readonly<Record<string, number>> = { ok: 1, degraded: 0, failed: 0 };

function healthGauges(read: Read): GaugeRow[] {
  const look = shared(() => read().checkHealth());
  const seconds = async (name: 'skew' | 'writeTime') => {
    const ms = (await look()).readings[name];
    return ms && ms / 1_000;
  };
  const checks: Show = async (gauge) => {
    for (const [check, result] of Object.entries((await look()).health.checks)) {
      const value = healthValues[result];
      if (value !== undefined) gauge.set({ check }, value);
    }
  };
  return [
    ['gateway_health', 'Result of a health check: 1 is ok, 0 degraded or failed; absent if off or unknown', checks],
    [
      'gateway_clock_skew_seconds',
      "By how much this machine's clock is certainly ahead of the database's; negative where it is behind",
      single(() => seconds('skew')),
    ],
    [
      'gateway_database_write_seconds',
      'How long a write took until a majority had it in its journal, measured every 5 s at most',
      single(() => seconds('writeTime')),
    ],
    [
      'gateway_database_disk_free_ratio',
      "How much of the primary's disk is free, as a share of 1",
      single(async () => (await look()).readings.freeDisk),
    ],
  ];
}

/** Between two looks at the event loop. Milliseconds. */
const eventLoopResolution = 20;

/** The event loop's delay since the last scrape. Measured from the first scrape on. */
function eventLoopGauges(): GaugeRow[] {
  let delay: EventLoopDelay | undefined;
  const look = shared(async () => {
    delay ??= measureEventLoopDelay(eventLoopResolution);
    return delay.read();
  });
  const of = (part: 'p99' | 'max') => single(async () => (await look())?.[part]);
  const p99 = "The event loop's 99th percentile of delay since the last scrape";
  return [
    ['gateway_event_loop_delay_seconds', p99, of('p99')],
    ['gateway_event_loop_delay_max_seconds', "The event loop's longest delay since the last scrape", of('max')],
  ];
}

/** Adds the gauges, which are read at each scrape. */
export function addGauges(registry: Registry, read: Read): void {
  const rows = [...processGauges(read), ...backlogGauges(read), ...healthGauges(read), ...eventLoopGauges()];
  for (const [name, help, show] of rows) {
    new Gauge({
      name,
      help,
      registers: [registry],
      // with a label, even one that it does not use, a gauge has no value until one is set
      labelNames,
      async collect() {
        this.reset();
        await show(this);
      },
    });
  }
}
