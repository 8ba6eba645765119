import { durableCollection } from '../mongo/collection.ts';
import { type Durations, merged, percentile } from '../mongo/durations.ts';
import { type BacklogReads, countLimit } from './backlog.ts';
import type { ProcessDocument, ProcessInfo, ProcessModel, UpstreamCounts } from './model.ts';

/** Seconds; `null` where nothing was measured. */
export interface Percentiles {
  readonly p50: number | null;
  readonly p95: number | null;
}

/** One upstream, as the live processes have met it in the last five minutes. */
export interface UpstreamInfo {
  readonly name: string;
  /** Live processes that have it. */
  readonly processes: number;
  /** In how many of them its breaker is in which state. */
  readonly breaker: Readonly<Record<UpstreamCounts['breaker'], number>>;
  /** Requests to it, retried ones too. */
  readonly requests: number;
  /** Those without a response, and those answered 401, 403, 407, 408, 429 or 5xx. */
  readonly errors: number;
  /** The same, by code: `http_503`, `connect_refused`. */
  readonly errorCodes: Readonly<Record<string, number>>;
  /** Of calls that were answered to their end, from their arrival to their last byte: with what other upstreams took before. */
  readonly latency: Percentiles;
  /** From a request to the head of its response. */
  readonly timeToFirstByte: Percentiles;
  /** Since when it is counted. */
  readonly since: Date;
}

/** What all processes together have to do. */
export interface Backlog {
  /** Deliveries that are due and not claimed, counted up to 10,000. */
  readonly due: number;
  readonly dueIsMore: boolean;
  readonly oldestDueAt: Date | null;
  /** How long the oldest has been due; 0 where none is. */
  readonly oldestDueSeconds: number;
  /** Deliveries whose next attempt is due later, counted up to 10,000. */
  readonly scheduled: number;
  readonly scheduledIsMore: boolean;
  /** Events whose deliveries are not made, and that no process has claimed, counted up to 10,000. */
  readonly fanOutsPending: number;
  readonly fanOutsIsMore: boolean;
  readonly oldestFanOutSeconds: number;
  /** Attempts that live processes were sending when they last said so. */
  readonly inProgress: number;
}

/** What the operator sees of all processes. Methods throw GatewayError `database_unavailable`. */
export interface ProcessService {
  /** The processes of the last day, live ones first, then those that were seen last; 1,000 at most. */
  processes(): Promise<ProcessInfo[]>;
  /** The upstreams of live processes, by name. */
  upstreams(): Promise<UpstreamInfo[]>;
  backlog(): Promise<Backlog>;
}

/** How many records are read. */
const limit = 1_000;
/** How long the database may take. Milliseconds. */
const maxTimeMS = 2_000;

const isLive = { $gt: ['$liveUntil', '$$NOW'] };

function percentilesOf(all: readonly Durations[]): Percentiles {
  const durations = merged(all);
  const seconds = (part: number) => {
    const ms = percentile(durations, part);
    return ms === null ? null : ms / 1_000;
  };
  return { p50: seconds(0.5), p95: seconds(0.95) };
}

type Counted = UpstreamCounts & { readonly since: Date };

function toUpstream(name: string, all: readonly Counted[]): UpstreamInfo {
  const sum = (of: (counts: Counted) => number) => all.reduce((total, counts) => total + of(counts), 0);
  const states = (state: Counted['breaker']) => all.filter(({ breaker }) => breaker === state).length;
  return {
    name,
    processes: all.length,
    breaker: { open: states('open'), half_open: states('half_open'), closed: states('closed') },
    requests: sum(({ requests }) => requests),
    errors: sum(({ errors }) => errors),
    errorCodes: merged(all.map(({ errorCodes }) => errorCodes)),
    latency: percentilesOf(all.map(({ latency }) => latency)),
    timeToFirstByte: percentilesOf(all.map(({ firstByte }) => firstByte)),
    since: new Date(Math.min(...all.map(({ since }) => since.getTime()))),
  };
}

/** Of a record: a newer version, which runs beside this one during an upgrade, may write more. */
const shownFields: Readonly<Record<Exclude<keyof ProcessInfo, 'id' | 'isLive'>, 1>> = {
  hostname: 1,
  pid: 1,
  version: 1,
  role: 1,
  startedAt: 1,
  seenAt: 1,
  eventLoopLag: 1,
  attempts: 1,
  relayedCalls: 1,
  lastSweepAt: 1,
  clockSkew: 1,
};

export function createProcessService(
  processes: ProcessModel,
  reads: Pick<BacklogReads, 'size' | 'scheduled'>,
): ProcessService {
  const collection = durableCollection(processes);

  function findLive(projection: { readonly [Field in keyof ProcessDocument]?: 1 }) {
    const options = { projection, hint: 'expiry', limit, batchSize: limit + 1, maxTimeMS } as const;
    return collection.find({ $expr: isLive }, options).toArray();
  }

  return {
    async processes() {
      const documents = await collection
        .aggregate<Omit<ProcessInfo, 'id'> & { readonly _id: string }>(
          [
            { $sort: { liveUntil: -1 } },
            { $limit: limit },
            { $project: { ...shownFields, isLive } },
            { $sort: { isLive: -1, seenAt: -1, _id: 1 } },
          ],
          { hint: 'expiry', batchSize: limit + 1, maxTimeMS },
        )
        .toArray();
      return documents.map(({ _id: id, ...info }) => ({ id, ...info }));
    },
    async upstreams() {
      const byName = new Map<string, Counted[]>();
      for (const { upstreams, countedSince: since } of await findLive({ upstreams: 1, countedSince: 1 })) {
        for (const counts of upstreams) {
          const counted = { ...counts, since };
          byName.set(counts.name, [...(byName.get(counts.name) ?? []), counted]);
        }
      }
      return [...byName].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, all]) => toUpstream(name, all));
    },
    async backlog() {
      const [size, scheduled, live] = await Promise.all([reads.size(), reads.scheduled(), findLive({ attempts: 1 })]);
      return {
        due: size.deliveries.count,
        dueIsMore: size.deliveries.count === countLimit,
        oldestDueAt: size.deliveries.since,
        oldestDueSeconds: size.deliveries.oldest,
        scheduled: scheduled.count,
        scheduledIsMore: scheduled.isMore,
        fanOutsPending: size.events.count,
        fanOutsIsMore: size.events.count === countLimit,
        oldestFanOutSeconds: size.events.oldest,
        inProgress: live.reduce((sum, { attempts }) => sum + attempts, 0),
      };
    },
  };
}

/** How long the database may take to say whether there is a worker. Milliseconds. */
const longestLookForWorker = 1_000;

/** Whether a live process makes delivery attempts. */
export async function hasWorker(processes: ProcessModel): Promise<boolean> {
  const isLiveWorker = { role: { $ne: 'api' as const }, $expr: isLive };
  const options = { projection: { _id: 1 }, hint: 'expiry', maxTimeMS: longestLookForWorker } as const;
  return (await durableCollection(processes).findOne(isLiveWorker, options)) !== null;
}
