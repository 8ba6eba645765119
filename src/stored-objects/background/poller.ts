import type { WakeUps } from '../../mongo/agenda.ts';
import type { DatabaseAccess } from '../../mongo/connection/availability.ts';
import type { Logger, UsageRecord } from '../../options/options.ts';
import type { BackgroundResponse } from '../../proxy/ownership/background-responses.ts';
import { unknownRecord } from '../../proxy/stored-calls/ended-response.ts';
import type { PollResponse, ResponseState } from '../../proxy/stored-calls/poll-response.ts';
import type { BackgroundStore, ClaimedResponse } from './background-store.ts';
import type { HeldAdmissions } from './held-admissions.ts';

/** The data of a job that polls a response. */
export interface PollJob {
  readonly responseId: string;
  readonly userId: string;
  /** How often the response has been polled before. */
  readonly polls: number;
}

export interface PollerDeps {
  readonly store: BackgroundStore;
  readonly held: HeldAdmissions;
  readonly schedule: WakeUps<PollJob>['schedule'];
  readonly database: Pick<DatabaseAccess, 'run'>;
  readonly pollResponse: PollResponse;
  /** Writes the record of an ended call, unless one of its id is written. Resolves when it is durable. @default nothing is written */
  readonly recordOnce?: (record: UsageRecord) => Promise<void>;
  /** Removes an open record that a dead process has left. @default there are none */
  readonly dropOpen?: (usageId: string) => void;
  /** Called by the process that has counted a response, once for each. */
  readonly onCounted: ((record: UsageRecord) => void) | undefined;
  /** The first wait between two polls, and the longest. Milliseconds. */
  readonly interval: number;
  readonly longestInterval: number;
  readonly logger: Pick<Logger, 'warn'>;
}

/** Each wait is half as long again as the one before. */
const growth = 1.5;
/** An upstream that does not know a response may not have stored it yet. After so many polls, the response is gone. */
const minGonePolls = 5;
/** For so long, that its upstream does not know it may mean so, too. Milliseconds. */
const youngFor = 60_000;

/**
 * Polls responses that are made in the background, and counts them. The usage record, whose id is stored with the response,
 * is written before the response counts as counted: so it is written again if a process dies in between, which changes nothing.
 */
export function createPoller(deps: PollerDeps) {
  const {
    store,
    held,
    schedule,
    database,
    pollResponse,
    recordOnce = async () => {},
    interval,
    longestInterval,
    logger,
  } = deps;

  const waitAfter = (polls: number) => Math.min(longestInterval, Math.round(interval * growth ** polls));

  async function count(id: string, ended: UsageRecord): Promise<void> {
    const record = held.withStreamed(id, ended);
    await database.run(() => recordOnce(record));
    const hasCounted = await database.run(() => store.finish(id, record.id));
    held.closed(id, record);
    if (hasCounted) deps.onCounted?.(record);
  }

  /** How it has ended, by what is known now; `undefined` if it is polled again. */
  async function endOf({ response, polls, isLast }: ClaimedResponse): Promise<UsageRecord | undefined> {
    const { id, upstream, background } = response;
    const state = await pollResponse(response).catch((error: unknown) => String(error));
    if (typeof state === 'object') return state;
    const isGone = state === 'gone' && polls >= minGonePolls;
    if (!isGone && !isLast) return undefined;
    const reason = isGone ? 'its upstream does not keep it' : `it has not ended in time; the last answer: ${state}`;
    logger.warn('a response that is made in the background is charged by estimate', { id, upstream, reason });
    return unknownRecord(background);
  }

  async function pollNext(id: string): Promise<void> {
    const claimed = await store.claim(id);
    if (!claimed) {
      // another process polls it at present, or has counted it
      if ((await store.uncounted([id])).size === 0) held.release(id);
      return;
    }
    const { response, polls } = claimed;
    // the process that made the call may have died before it did that
    if (polls === 1) deps.dropOpen?.(response.background.id);
    const record = await endOf(claimed);
    if (record) return count(id, record);
    const wait = waitAfter(polls);
    if (await store.release(id, polls, wait)) await schedule({ responseId: id, userId: response.userId, polls }, wait);
  }

  /** Polls now, and counts what has ended. */
  async function poll(response: BackgroundResponse): Promise<ResponseState> {
    const state = await pollResponse(response);
    if (typeof state === 'object') await count(response.id, state);
    return state;
  }

  async function settle(response: BackgroundResponse): Promise<boolean> {
    const state = await poll(response);
    const age = Date.now() - response.background.startedAt.getTime();
    if (state === 'gone' && age < youngFor) return false;
    if (state === 'gone') await count(response.id, unknownRecord(response.background));
    return state !== 'running';
  }

  return { count, pollNext, poll, settle };
}
