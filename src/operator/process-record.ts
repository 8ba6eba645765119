import { hostname } from 'node:os';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { DeliveryService } from '../deliveries/service.ts';
import { newId } from '../ids.ts';
import { durableCollection } from '../mongo/collection.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { createPeriodic, withTimeout } from '../mongo/periodic.ts';
import { createReadSkew } from '../mongo/probes/probes.ts';
import type { ResolvedOptions } from '../options/options.ts';
import type { ModelProxy } from '../proxy/proxy.ts';
import { readVersion } from '../version.ts';
import type { ProcessModel, ProcessRole } from './model.ts';
import type { UpstreamWindow } from './upstream-window.ts';

export interface ProcessRecordDeps {
  readonly processes: ProcessModel;
  readonly access: Pick<DatabaseAccess, 'isUnavailable'>;
  readonly deliveries: Pick<DeliveryService, 'scheduler' | 'due'>;
  readonly proxy: Pick<ModelProxy, 'states'>;
  readonly upstreamWindow: UpstreamWindow;
  readonly options: Pick<ResolvedOptions, 'logger'>;
  /** How often the record is renewed. Milliseconds. */
  readonly interval: number;
}

/** How long a renewal may take. Milliseconds. */
const longestRenewal = 2_000;
/** For how many intervals the process counts as live. */
const liveIntervals = 3;

const before = (ms: number | undefined) => (ms === undefined ? null : { $subtract: ['$$NOW', Math.round(ms)] });

/** What this process tells of itself, and the moments of it by the database's clock. @param startedAt by `performance.now()` */
function describeProcess(deps: ProcessRecordDeps, startedAt: number, servesRequests: boolean) {
  const { deliveries, proxy, upstreamWindow, interval } = deps;
  const { scheduler, due } = deliveries;
  const now = performance.now();
  const states = proxy.states();
  const stateOf = new Map(states.map(({ name, breaker, isHanging }) => [name, { breaker, isHanging }]));
  const { age, upstreams } = upstreamWindow.report(now);
  const workingRole: ProcessRole = servesRequests ? 'all' : 'worker';
  const told = {
    hostname: hostname(),
    pid: process.pid,
    version: readVersion(),
    role: scheduler.isWorking ? workingRole : 'api',
    attempts: scheduler.attempts.sending,
    relayedCalls: states.reduce((sum, { calls }) => sum + calls, 0),
    upstreams: upstreams.map((counts) => ({ ...counts, breaker: 'closed', ...stateOf.get(counts.name) })),
  };
  const moments = {
    startedAt: { $ifNull: ['$startedAt', before(now - startedAt)] },
    seenAt: '$$NOW',
    liveUntil: { $add: ['$$NOW', liveIntervals * interval] },
    lastSweepAt: before(due.sweptAt === undefined ? undefined : now - due.sweptAt),
    countedSince: before(age),
  };
  return { told, moments };
}

/** Keeps what this process tells of itself in the database. */
export function createProcessRecord(deps: ProcessRecordDeps) {
  const { access, options, interval } = deps;
  const collection = durableCollection(deps.processes);
  const readSkew = createReadSkew(deps.processes.db);
  const _id = newId('prc', Date.now());
  const startedAt = performance.now();
  let delay: EventLoopDelay | undefined;
  let servesRequests = false;

  async function write(): Promise<void> {
    if (access.isUnavailable) return;
    const skew = await readSkew();
    const { told, moments } = describeProcess(deps, startedAt, servesRequests);
    const measured = { eventLoopLag: delay?.read()?.p99 ?? null, clockSkew: skew === undefined ? null : skew / 1_000 };
    const literal = { $literal: { _id, ...told, ...measured } };
    const unconfirmed = { upsert: true, writeConcern: { w: 1 } } as const;
    await collection.updateOne({ _id }, [{ $replaceWith: { $mergeObjects: [literal, moments] } }], unconfirmed);
  }

  const periodic = createPeriodic({
    name: 'the record of this process',
    task: write,
    interval,
    initialDelay: interval,
    longestRun: longestRenewal,
    logger: options.logger,
  });

  /** Renews it now, because the role has changed. The next renewal tells of a failure that lasts. */
  const renew = () => withTimeout(write(), longestRenewal, false).catch(() => {});

  return {
    /** Writes the record, and renews it from now on. */
    async start(): Promise<void> {
      delay = measureEventLoopDelay(recordResolution);
      await renew();
      periodic.start();
    },
    renew,
    /** Notes that this process serves requests; the next renewal tells it. */
    serves(): void {
      servesRequests = true;
    },
    /** Removes it. */
    async close(): Promise<void> {
      delay?.close();
      await periodic.stop();
      if (!access.isUnavailable) await collection.deleteOne({ _id }, { writeConcern: { w: 1 } });
    },
  };
}

/** How often the record looks at the event loop: each 20 ms takes 3 to 5 of the 18 to 21 ms of CPU that an idle process takes a second. Milliseconds. */
const recordResolution = 100;

/** How late this process's timers are. Seconds. */
export interface EventLoopDelay {
  /** Since the last call; `undefined` where nothing was measured since. */
  read(): { readonly p99: number; readonly max: number } | undefined;
  close(): void;
}

/**
 * Starts to measure the delays of the event loop.
 * @param resolution between two looks, in milliseconds: a delay counts as far as it lasts beyond the next look
 */
export function measureEventLoopDelay(resolution: number): EventLoopDelay {
  const delays = monitorEventLoopDelay({ resolution });
  delays.enable();
  return {
    read() {
      if (delays.count === 0) return undefined;
      const lateness = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - resolution / 1e3);
      const measured = { p99: lateness(delays.percentile(99)), max: lateness(delays.max) };
      delays.reset();
      return measured;
    },
    close: () => void delays.disable(),
  };
}
