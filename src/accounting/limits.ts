import { isDate } from 'node:util/types';
import { refuse } from '../errors.ts';
import { checkUserId, isStorableId, newId } from '../ids.ts';
import type { durableCollection } from '../mongo/collection.ts';
import { createPeriodic } from '../mongo/periodic.ts';
import type { LimitOptions } from '../options/options.ts';
import { createLimiter } from './limiter.ts';
import { MinuteCounters, Sharing } from './minute-counters.ts';
import type { RateDocument } from './model.ts';
import { type ClosingDeps, createClosing, RefusedCalls } from './refused-calls.ts';

/** How often the service looks for windows that are over, in the time after the end of one. Milliseconds. */
const attentive = { interval: 1_000, until: 15_000 } as const;
/** How often it looks at other times, for windows of processes that died or whose clock is wrong. Milliseconds. */
const seldom = 5_000;
/** How long one look may take: longer than a transaction is retried. Milliseconds. */
const longestLook = 150_000;

/** Calls that the host's own limiter has refused. */
export interface ExceededReport {
  readonly userId: string;
  /** `null` if the calls came without one. */
  readonly apiKeyId: string | null;
  /** What that limiter allows, in its own period. */
  readonly limit: number;
  /** @default 1 */
  readonly rejectedRequests?: number;
  /** When they were refused. Calls from before the previous window count in that window. @default now */
  readonly at?: Date;
}

export interface LimitServiceDeps extends Omit<ClosingDeps, 'grace'> {
  readonly rates: ReturnType<typeof durableCollection<RateDocument>>;
  /** Without limits, only reported calls are published. */
  readonly options: Pick<LimitOptions, 'perKey' | 'perUser' | 'shared'>;
  /** How long counts are gathered before they are written together. A kill loses this much. Milliseconds. @default 200 */
  readonly flushInterval?: number;
  /** The shortest time between two exchanges of shared counts. Milliseconds. */
  readonly syncInterval: number;
  /** How long refused calls of one key are summed up in one event. Milliseconds. */
  readonly eventWindow: number;
}

export type LimitService = ReturnType<typeof createLimitService>;

function checkWhole(param: string, value: unknown, min: number): void {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min) return;
  refuse('invalid_value', param, `must be a whole number, ${min} or more`);
}

function checkReport({ userId, apiKeyId, limit, rejectedRequests = 1, at }: ExceededReport): void {
  checkUserId(userId);
  if (apiKeyId !== null && !isStorableId(apiKeyId)) {
    refuse('invalid_value', 'apiKeyId', 'must be a string of 1 to 256 characters, or null');
  }
  checkWhole('limit', limit, 0);
  checkWhole('rejectedRequests', rejectedRequests, 1);
  if (at !== undefined && !(isDate(at) && Number.isFinite(at.getTime()))) {
    refuse('invalid_value', 'at', 'must be a Date');
  }
}

/** All windows end at the same moment, so between two such moments none can be over. */
function untilNextLook(eventWindow: number): number {
  const sinceEnd = Date.now() % eventWindow;
  const wait = sinceEnd < attentive.until ? attentive.interval : seldom;
  return Math.min(wait, eventWindow - sinceEnd);
}

/** Rate limits, and the events about accounts that exceed them. */
export function createLimitService(deps: LimitServiceDeps) {
  const { rates, exceeded, options, logger, flushInterval = 200, syncInterval, eventWindow } = deps;
  const owner = newId('wrk', Date.now());
  const counters = new MinuteCounters();
  const sharing = options.shared ? new Sharing({ rates, counters, owner, interval: syncInterval, logger }) : undefined;
  const refusedCalls = new RefusedCalls({ exceeded, owner, window: eventWindow, flushInterval, logger });
  const closeWindows = createClosing({ ...deps, grace: Math.min(2_000, eventWindow) });

  const closing = createPeriodic({
    name: 'publishing refused calls',
    task: closeWindows,
    interval: () => untilNextLook(eventWindow),
    longestRun: longestLook,
    logger,
  });

  const onCounted = (isNear: boolean) => sharing?.counted(isNear);
  const admit = createLimiter({
    options,
    counters,
    onCounted,
    onRefused({ userId, keyId: apiKeyId = null }, limit) {
      refusedCalls.add({ userId, apiKeyId, limit, count: 1, at: Date.now() });
      // what others give back lets calls pass again
      onCounted(true);
    },
  });
  return {
    /** Counts a call, or refuses it; `undefined` if the options limit nothing. */
    admit: options.perKey !== undefined || options.perUser !== undefined ? admit : undefined,
    /**
     * Includes calls that the host's own limiter has refused in `rate_limit.exceeded`. Resolves when they can no longer be lost.
     * @throws GatewayError `invalid_value`; through the gateway also `database_unavailable`: if it says that nothing was done,
     * report the calls again; otherwise the gateway writes them later
     */
    async reportExceeded(report: ExceededReport): Promise<void> {
      checkReport(report);
      const { userId, apiKeyId, limit, rejectedRequests: count = 1, at = new Date() } = report;
      refusedCalls.add({ userId, apiKeyId, limit, count, at: at.getTime() });
      await refusedCalls.flush();
    },
    /** Publishes the windows that are over; see {@link createClosing}. */
    closeWindows,
    /** Closes windows from now on. */
    start: closing.start,
    /** Stops, and writes the counts. */
    async close(): Promise<void> {
      await Promise.all([closing.stop(), sharing?.stop(), refusedCalls.close()]);
    },
  };
}
