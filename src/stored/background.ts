import { GatewayError } from '../errors.ts';
import { fromNow } from '../mongo/clock.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { type Held, LeaseKeeper, Leases } from '../mongo/lease.ts';
import { Alarms, createPeriodic } from '../mongo/periodic.ts';
import type { Logger, UsageRecord } from '../options/options.ts';
import type { Admission, RunningResponses } from '../proxy/admission.ts';
import { type PollResponse, unknownRecord } from './ended-response.ts';
import { kinds } from './kinds.ts';
import { type BackgroundDocument, type StoredObjectDocument, type StoredObjectModel, toObject } from './model.ts';
import { PollQueue, type PollRef } from './poll-queue.ts';
import type { BackgroundResponse } from './stored-object.ts';
import type { ResponseState } from './work.ts';

interface BackgroundServiceDeps {
  readonly objects: StoredObjectModel;
  readonly database: Pick<DatabaseAccess, 'run'>;
  readonly pollResponse: PollResponse;
  /** Writes the record of an ended call, unless one of its id is written. Resolves when it is durable. @default nothing is written */
  readonly recordOnce?: (record: UsageRecord) => Promise<void>;
  /** Removes an open record that a dead process has left. @default there are none */
  readonly dropOpen?: (usageId: string) => void;
  /** Called by the process that has counted a response, once for each. */
  readonly onCounted: (record: UsageRecord) => void;
  /** The first wait between two polls, and the longest. Milliseconds. */
  readonly interval: number;
  readonly longestInterval: number;
  /** How long the claim of a poll lasts, unless it is renewed: for as long as the poll takes, it is. Milliseconds. @default 60_000 */
  readonly claimDuration?: number;
  readonly logger: Logger;
}

/** Follows responses that are made in the background, and batches, for the calls about them. */
export type BackgroundResponses = Omit<Pick<BackgroundService, keyof BackgroundService>, 'start' | 'close'>;

/** How often this process looks for responses that are polled soon, and how far ahead: one look may fail. Milliseconds. */
const sweepInterval = 5_000;
const lookAhead = 2 * sweepInterval;
/** How often what is reserved for responses is released if other processes have counted them. Milliseconds. */
const releaseInterval = 15_000;

/** Responses of one account that one process follows: those of other accounts must be asked for in time. */
const mostOfAccount = 200;

/** Each wait is half as long again as the one before. */
const growth = 1.5;
/** An upstream that does not know a response may not have stored it yet. After so many polls, the response is gone. */
const minGonePolls = 5;
/** For so long, that its upstream does not know it may mean so, too. Milliseconds. */
const youngFor = 60_000;

/** A response that runs on, as the process knows it that has made its call. */
interface FollowedResponse {
  readonly userId: string;
  readonly admissions: readonly Admission[];
  /** The output tokens that its stream has shown by now. @default none */
  readonly tokensStreamed: (() => number) | undefined;
}

/** Polls responses that are made in the background, and batches, until each is counted, once. */
export class BackgroundService implements RunningResponses {
  readonly #deps: BackgroundServiceDeps;
  readonly #polls: Polls;
  readonly #followed = new Map<string, FollowedResponse>();
  /** A poll that reads a large output must not be made by another process as well. */
  readonly #claims: LeaseKeeper<Held>;
  readonly #polledSoon = new Set<string>();
  readonly #queue: PollQueue;
  /** By response: when it is polled next. */
  readonly #coming = new Alarms();
  #isPolling = false;
  #isClosed = false;
  readonly #sweeping: ReturnType<typeof createPeriodic>;
  readonly #releasing: ReturnType<typeof createPeriodic>;

  constructor(deps: BackgroundServiceDeps) {
    const { objects, claimDuration = 60_000, logger } = deps;
    this.#deps = deps;
    this.#polls = new Polls(objects, claimDuration);
    this.#claims = new LeaseKeeper<Held>({
      name: 'renewing the claims of polls',
      renew: (claims) => this.#polls.renew(claims),
      duration: claimDuration,
      interval: claimDuration / 3,
      renewBelow: (2 * claimDuration) / 3,
      logger,
    });
    this.#queue = new PollQueue((id) =>
      // its claim lapses, and a sweep finds it
      this.#pollNext(id).catch((error: unknown) =>
        logger.warn('what is made in the background is asked for later', { id, reason: String(error) }),
      ),
    );
    this.#sweeping = createPeriodic({
      name: 'the sweep for what is made in the background',
      task: () => this.#sweep(),
      interval: sweepInterval,
      logger,
    });
    this.#releasing = createPeriodic({
      name: 'releasing what is reserved for responses that are counted',
      task: () => this.#releaseCounted(),
      interval: releaseInterval,
      logger,
    });
  }

  requireRoom(userId: string): void {
    const running = [...this.#followed.values()].filter((response) => response.userId === userId).length;
    if (running < mostOfAccount) return;
    const message = `This account already has ${running} background responses and batches, its maximum; send the request again when one has ended`;
    throw new GatewayError('rate_limit_exceeded', message, { headers: { 'retry-after': '10' } });
  }

  started(
    { id, userId }: PollRef,
    { admissions, usageId }: { readonly admissions: readonly Admission[]; readonly usageId: string },
    tokensStreamed?: () => number,
  ): void {
    // a request that was repeated, and got the same response, needs no admissions of its own
    if (this.#followed.has(id)) for (const admission of admissions) admission.dropped();
    else {
      for (const admission of admissions) admission.outlives?.(usageId);
      this.#followed.set(id, { userId, admissions, tokensStreamed });
    }
    if (!this.#isClosed) this.#releasing.start();
    this.#pollIn({ id, userId }, this.#deps.interval);
  }

  /** It has ended. Never rejects: if it cannot be counted now, it is counted later. */
  ended({ id }: PollRef, record: UsageRecord): Promise<void> {
    const counted = this.#count(id, record).catch((error: unknown) =>
      this.#deps.logger.warn('the usage of a response is counted later', { id, reason: String(error) }),
    );
    this.#queue.underWay.add(counted);
    return counted;
  }

  /** It may have ended: polls it soon. */
  pollSoon(response: BackgroundResponse): void {
    const { id } = response;
    if (this.#polledSoon.has(id)) return;
    this.#polledSoon.add(id);
    // whatever comes of it, the response is polled again when it is due
    const done = () => void this.#polledSoon.delete(id);
    this.#queue.underWay.add(this.#poll(response).then(done, done));
  }

  /**
   * Polls it now.
   * @returns whether it has ended and is counted
   * @throws GatewayError with the code of an upstream's failure, `database_unavailable`
   */
  async settle(response: BackgroundResponse): Promise<boolean> {
    const state = await this.#poll(response);
    const age = Date.now() - response.background.startedAt.getTime();
    if (state === 'gone' && (age < youngFor || kinds[response.kind].work !== undefined)) return false;
    if (state === 'gone') await this.#count(response.id, unknownRecord(response.background));
    return state !== 'running';
  }

  /** Polls upstreams in this process from now on. */
  start(): void {
    this.#isPolling = true;
    this.#sweeping.start();
  }

  /** Polls no more. What has not ended is left to other processes. */
  async close(): Promise<void> {
    this.#isPolling = false;
    this.#isClosed = true;
    this.#coming.clear();
    this.#queue.close();
    await Promise.all([this.#sweeping.stop(), this.#releasing.stop()]);
    await this.#queue.done();
    for (const id of this.#followed.keys()) this.#release(id);
  }

  async #sweep(): Promise<void> {
    for (const { wait, ...response } of await this.#polls.coming()) this.#pollIn(response, wait);
  }

  /** Polls it in so many milliseconds, if that is soon: otherwise a sweep sees it. If several processes do, the claim decides. */
  #pollIn(response: PollRef, wait: number): void {
    if (!this.#isPolling || wait > lookAhead) return;
    this.#coming.set(response.id, performance.now() + wait, () => this.#queue.add(response));
  }

  /** Releases what is reserved for responses that other processes have counted. */
  async #releaseCounted(): Promise<void> {
    const ids = [...this.#followed.keys()];
    const uncounted = ids.length > 0 ? await this.#polls.uncounted(ids) : new Set();
    for (const id of ids) if (!uncounted.has(id)) this.#release(id);
  }

  /** Follows a response no longer. @returns what was admitted for it */
  #unfollow(id: string): readonly Admission[] {
    const admissions = this.#followed.get(id)?.admissions ?? [];
    this.#followed.delete(id);
    this.#coming.cancel(id);
    return admissions;
  }

  /** Another process has counted it, or may do so. */
  #release(id: string): void {
    for (const admission of this.#unfollow(id)) admission.dropped();
  }

  /**
   * The usage record, whose id is stored with the response, is written before the response counts as counted: so it is written again if a process
   * dies in between, which changes nothing.
   */
  async #count(id: string, ended: UsageRecord): Promise<void> {
    const { database, recordOnce, onCounted } = this.#deps;
    // an estimate has no fewer output tokens than this process has streamed
    const streamed = this.#followed.get(id)?.tokensStreamed?.() ?? 0;
    const isMore = ended.estimated && streamed > ended.outputTokens;
    const record = isMore ? { ...ended, outputTokens: streamed } : ended;
    await database.run(async () => recordOnce?.(record));
    const hasCounted = await database.run(() => this.#polls.finish(id, record.id));
    for (const admission of this.#unfollow(id)) admission.closed(record);
    if (hasCounted) onCounted(record);
  }

  /** How it has ended, by what is known now; `undefined` if it is polled again. */
  async #endOf({ response, count: asked, isLast }: ClaimedPoll): Promise<UsageRecord | undefined> {
    const { pollResponse, logger } = this.#deps;
    const { id, kind, upstream, background } = response;
    const state = await pollResponse(response).catch((error: unknown) => String(error));
    if (typeof state === 'object') return state;
    // what is worked on for long is not given up for an upstream that does not know it for a while
    const isGone = state === 'gone' && asked >= minGonePolls && kinds[response.kind].work === undefined;
    if (!isGone && !isLast) return undefined;
    const reason = isGone ? 'its upstream does not keep it' : `it has not ended in time; the last answer: ${state}`;
    logger.warn('what was made in the background is charged by estimate', { kind, id, upstream, reason });
    return unknownRecord(background);
  }

  /** Polls a response if that is due. */
  async #pollNext(id: string): Promise<void> {
    const { interval, longestInterval, dropOpen } = this.#deps;
    const claimed = await this.#polls.claim(id);
    if (!claimed) {
      // another process polls it at present, or has counted it
      if (this.#followed.has(id) && (await this.#polls.uncounted([id])).size === 0) this.#release(id);
      return;
    }
    const { response, count: asked, heldUntil } = claimed;
    const claim = { _id: id, fence: asked };
    this.#claims.hold(claim, heldUntil);
    try {
      // the process that made the call may have died before it did that
      if (asked === 1) dropOpen?.(response.background.id);
      const record = await this.#endOf(claimed);
      if (record) return await this.#count(id, record);
    } finally {
      await this.#claims.drop(claim);
    }
    const wait = Math.min(longestInterval, Math.round(interval * growth ** asked));
    if (await this.#polls.release(claim, wait)) this.#pollIn({ id, userId: response.userId }, wait);
  }

  /** Polls now, and counts what has ended. */
  async #poll(response: BackgroundResponse): Promise<ResponseState> {
    const state = await this.#deps.pollResponse(response);
    if (typeof state === 'object') await this.#count(response.id, state);
    return state;
  }
}

/** The most responses that one sweep finds: more than several accounts may have in a process. */
const maxComing = 2_000;

/** The next poll of a response, which one process makes, and no other until the claim lapses. */
interface ClaimedPoll {
  readonly response: BackgroundResponse;
  /** How often the response has been claimed, this time too. Fences the claim. */
  readonly count: number;
  /** Until when the claim surely lasts, by `performance.now()`. */
  readonly heldUntil: number;
  /** Whether this is the last poll. */
  readonly isLast: boolean;
}

type UncountedDocument = StoredObjectDocument & { readonly background: BackgroundDocument };

const isUncounted = { 'background.dueAt': { $exists: true } } as const;

/** Which responses are polled when, in the database; its clock decides when a poll is due. */
class Polls {
  readonly #collection: ReturnType<typeof durableCollection<StoredObjectDocument>>;
  readonly #leases: Leases<StoredObjectDocument>;

  constructor(objects: StoredObjectModel, claimDuration: number) {
    this.#collection = durableCollection(objects);
    this.#leases = new Leases(this.#collection, {
      fence: 'background.polls',
      until: 'background.dueAt',
      duration: claimDuration,
    });
  }

  /** Claims the next poll of a response; `null` if it is not due, or counted. */
  async claim(id: string): Promise<ClaimedPoll | null> {
    const isDue = { _id: id, ...isUncounted, $expr: { $lte: ['$background.dueAt', '$$NOW'] } };
    const isLast = { $gte: ['$$NOW', '$background.giveUpAt'] };
    const projection = { kind: 1, userId: 1, upstream: 1, model: 1, origin: 1, background: 1, isLast };
    const taken = await this.#leases.take(
      isDue,
      { 'background.polls': { $add: ['$background.polls', 1] } },
      { projection },
    );
    if (!taken) return null;
    const claimed = taken.document as unknown as UncountedDocument & { readonly isLast: boolean };
    const response = toObject(claimed) as BackgroundResponse;
    return { response, count: claimed.background.polls, heldUntil: taken.heldUntil, isLast: claimed.isLast };
  }

  /** Renews claims, and returns those that are still held: each by itself, for their fences are counts. */
  async renew(claims: readonly Held[]): Promise<readonly Held[]> {
    return (await Promise.all(claims.map((claim) => this.#leases.renew([claim], { where: isUncounted })))).flat();
  }

  /** Ends a claim: the next poll is due in so many milliseconds. @returns whether the claim was still held */
  release(claim: Held, wait: number): Promise<boolean> {
    return this.#leases.write(claim, { 'background.dueAt': fromNow(wait) });
  }

  /** Ends the polling of a response. @returns whether this call has ended it */
  async finish(id: string, usageId: string): Promise<boolean> {
    const filter = { _id: id, 'background.usage.id': usageId };
    return (await this.#collection.updateOne(filter, { $unset: { background: true } })).modifiedCount === 1;
  }

  /** Responses that are polled soon, and those that should have been, with the milliseconds until then; the longest due first. */
  async coming(): Promise<(PollRef & { readonly wait: number })[]> {
    const isComing = { ...isUncounted, $expr: { $lte: ['$background.dueAt', fromNow(lookAhead)] } };
    const sorted = {
      sort: { 'background.dueAt': 1 },
      limit: maxComing,
      projection: { userId: 1, wait: { $subtract: ['$background.dueAt', '$$NOW'] } },
      ...inOneBatch,
    } as const;
    const found = await this.#collection
      .find<{ _id: string; userId: string; wait: number }>(isComing, sorted)
      .toArray();
    return found.map(({ _id: id, userId, wait }) => ({ id, userId, wait }));
  }

  /** Those of these responses that are not counted. */
  async uncounted(ids: readonly string[]): Promise<ReadonlySet<string>> {
    const filter = { _id: { $in: [...ids] }, ...isUncounted };
    const found = await this.#collection.find(filter, { projection: { _id: 1 }, ...inOneBatch }).toArray();
    return new Set(found.map(({ _id }) => _id));
  }
}
