import { setTimeout as sleep } from 'node:timers/promises';
import { permitHorizon } from '../fairness/send-rates.ts';
import { Alarms } from '../mongo/periodic.ts';
import type { Logger } from '../options/options.ts';
import type { Attempts, FinishAttempt, FirstAttempt, PreparedAttempt } from './attempt.ts';
import type { AttemptRef, ComingAttempt } from './claims.ts';
import type { DueAttempts } from './due-reads.ts';
import type { WebhookRef } from './model.ts';
import { Schedule, type ScheduledWebhook, type ScheduleOptions } from './schedule.ts';

/** First attempts that wait for room, in multiples of requests under way. */
const waitingLimit = 5;
/** After this many reads without a single claim, the next sweep continues: other processes are claiming the same attempts. */
const maxReadsWithoutClaim = 3;
/** What is due again at the end of a pause is due a little later by the database's clock. Milliseconds. */
const pauseSlack = 20;
/** The longest that closing waits for attempts in flight: their deadline plus the time to record them. Milliseconds. */
const closeDeadline = 33_000;

export interface SchedulerDeps extends ScheduleOptions {
  readonly attempts: Pick<Attempts, 'prepare' | 'prepareFirst'>;
  readonly due: Pick<DueAttempts, 'ofWebhooks'>;
  /**
   * How long a claimed attempt waits for a place, and a first attempt for room before that: together far less than a lease.
   * Milliseconds. @default 1_000
   */
  readonly maxWait?: number;
  readonly logger: Pick<Logger, 'warn'>;
}

/** Makes a first attempt whose room is certain; `null` if its event's lease does not last long enough any more. */
export type BeginFirst = () => FirstAttempt | null;

/** What has become of a first attempt: it has begun, it waits (resolves with whether it has begun), or there is no room. */
export type FirstStart = 'begun' | Promise<boolean> | 'no room';

/** A claimed attempt that waits for a place. Called with whether there is one. */
type Waiting = (hasPlace: boolean) => void;
type Webhook = ScheduledWebhook<Waiting>;

/** A first attempt that waits for room. */
interface WaitingFirst {
  readonly ref: AttemptRef;
  readonly begin: BeginFirst;
  readonly leave: (hasBegun: boolean) => void;
}

/**
 * Runs this process's attempts as {@link Schedule} decides: first attempts of new deliveries from memory, and stored ones that
 * are due, which it claims as there is room for them.
 */
export class Scheduler {
  readonly #deps: SchedulerDeps;
  readonly #schedule: Schedule<Waiting>;
  readonly #maxWait: number;
  /** By delivery; each resolves when its attempt has been recorded or given back. */
  readonly #held = new Map<string, Promise<void>>();
  /** By webhook, in the order of arrival. */
  readonly #firsts = new Map<string, WaitingFirst[]>();
  /** By delivery: when a stored attempt begins. */
  readonly #coming = new Alarms();
  /** By webhook: when the pause ends in which its rate limit holds it back. */
  readonly #pauses = new Alarms();
  #firstsCount = 0;
  #claiming: Promise<void> | null = null;
  #claimAgain = false;
  #onWanted: (() => void) | null = null;
  #isWorking = false;
  #isClosed = false;

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
    this.#schedule = new Schedule(deps);
    this.#maxWait = deps.maxWait ?? 1_000;
  }

  /** Whether this process makes attempts. */
  get isWorking(): boolean {
    return this.#isWorking;
  }

  /** Attempts that are being sent, how many may be at once, and those that are held: sent, claimed ahead, or being recorded. */
  get attempts(): { readonly sending: number; readonly limit: number; readonly held: number } {
    return { sending: this.#schedule.sending, limit: this.#deps.concurrency, held: this.#held.size };
  }

  start(): void {
    this.#isWorking = true;
  }

  /** How many more first attempts are wanted: as many as there is room for, once few wait for it. */
  get wantedFirsts(): number {
    if (this.#isClosed) return 0;
    const wanted = this.#schedule.wantedInAll;
    return this.#firstsCount < wanted / 2 ? wanted - this.#firstsCount : 0;
  }

  /** Resolves when first attempts are wanted again. */
  whenWanted(): Promise<void> {
    return new Promise((resolve) => {
      this.#onWanted = resolve;
    });
  }

  /** Whether a first attempt of this webhook would begin at once. */
  hasRoom(ref: WebhookRef): boolean {
    const now = performance.now();
    return this.#isWorking && this.#schedule.mayStartNew(this.#schedule.of(ref, now), now);
  }

  /** Begins the first attempt of a delivery that is not stored if there is room, or as soon as there is. */
  first(ref: AttemptRef, begin: BeginFirst): FirstStart {
    if (!this.#isWorking || this.#held.has(ref.deliveryId)) return 'no room';
    const isNext = !this.#firsts.has(ref.webhookId);
    if (isNext && this.#beginFirst(ref, begin)) return 'begun';
    const now = performance.now();
    const mayWait =
      this.#firstsCount < this.#deps.concurrency * waitingLimit &&
      this.#schedule.mayWaitNew(this.#schedule.of(ref, now), now);
    return mayWait ? this.#waitForRoom(ref, begin) : 'no room';
  }

  /** Something stored of this webhook may be due: claims it as soon as there is room. */
  look({ webhookId, userId }: { readonly webhookId: string; readonly userId?: string }): void {
    if (!this.#isWorking) return;
    this.#schedule.noteDue(webhookId, userId, performance.now());
    this.#claim();
  }

  /**
   * Stored attempts that are due soon: each begins at its time. To be called when the database has just said how soon. If this process dies,
   * the others' sweeps have seen them too; if several hold one, the claim decides.
   */
  expect(attempts: readonly ComingAttempt[]): void {
    if (!this.#isWorking) return;
    const now = performance.now();
    for (const { wait, ...ref } of attempts) {
      const { deliveryId } = ref;
      if (this.#coming.has(deliveryId)) continue;
      this.#coming.set(deliveryId, now + wait, () => this.#beginDue(ref));
    }
  }

  /** Tries again what was left to others. */
  resume(): void {
    if (this.#schedule.hasDue) this.#claim();
  }

  /** Starts nothing more; resolves when every held attempt has been recorded or given back, after 33 s at most. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#isWorking = false;
    this.#coming.clear();
    this.#pauses.clear();
    for (const { leave } of [...this.#firsts.values()].flat()) leave(false);
    for (const { webhook, item } of this.#schedule.allWaiting()) {
      this.#schedule.leave(webhook, item, false);
      item(false);
    }
    await Promise.race([this.#drained(), sleep(closeDeadline, undefined, { ref: false })]);
  }

  /** Resolves when nothing is being claimed, and every held attempt has been recorded or given back. */
  async #drained(): Promise<void> {
    await this.#claiming;
    await Promise.all(this.#held.values());
  }

  // First attempts.

  #beginFirst(ref: AttemptRef, begin: BeginFirst): boolean {
    if (this.#held.has(ref.deliveryId)) return false;
    const now = performance.now();
    const webhook = this.#schedule.of(ref, now);
    const first = this.#schedule.mayStartNew(webhook, now) && begin();
    if (!first) return false;
    void this.#run(ref, webhook, this.#deps.attempts.prepareFirst(first));
    return true;
  }

  /** Resolves with whether it has begun, after `maxWait` at most. */
  #waitForRoom(ref: AttemptRef, begin: BeginFirst): Promise<boolean> {
    const { webhookId } = ref;
    const firsts = this.#firsts.get(webhookId) ?? [];
    this.#firsts.set(webhookId, firsts);
    this.#firstsCount += 1;
    return new Promise((resolve) => {
      const timer = setTimeout(() => first.leave(false), this.#maxWait);
      const first: WaitingFirst = {
        ref,
        begin,
        leave: (hasBegun) => {
          clearTimeout(timer);
          firsts.splice(firsts.indexOf(first), 1);
          if (firsts.length === 0) this.#firsts.delete(webhookId);
          this.#firstsCount -= 1;
          resolve(hasBegun);
        },
      };
      firsts.push(first);
    });
  }

  // Stored attempts that are due.

  #claim(): void {
    if (this.#isClosed) return;
    this.#claimAgain = true;
    this.#claiming ??= this.#claimAll()
      .catch((error) => {
        const message = 'due attempts were not claimed; the next sweep tries again';
        this.#deps.logger.warn(message, { reason: String(error) });
      })
      .then(() => {
        this.#claiming = null;
        if (this.#claimAgain) this.#claim();
      });
  }

  async #claimAll(): Promise<void> {
    let readsWithoutClaim = 0;
    while (!this.#isClosed && readsWithoutClaim < maxReadsWithoutClaim) {
      this.#claimAgain = false;
      const shares = this.#schedule.nextClaims(performance.now());
      if (shares.size === 0) return;
      const refs = await this.#deps.due.ofWebhooks(new Map([...shares].map(([id, { count }]) => [id, count])));
      this.#schedule.served(shares, refs, performance.now());
      // a read before the claims are written would find the same attempts again
      const claimed = await Promise.all(refs.map((ref) => this.#claimOne(ref)));
      readsWithoutClaim = claimed.some(Boolean) ? 0 : readsWithoutClaim + 1;
    }
  }

  /** Resolves with whether it was claimed. */
  async #claimOne(ref: AttemptRef): Promise<boolean> {
    const now = performance.now();
    const webhook = this.#schedule.of(ref, now);
    if (this.#isClosed || this.#held.has(ref.deliveryId)) return false;
    if (this.#schedule.room(webhook, now) === 0) {
      // a read of webhooks whose account was not known finds more than the account may have
      this.#schedule.noteDue(ref.webhookId, ref.userId, now);
      return false;
    }
    const { isClaimed, prepared } = this.#deps.attempts.prepare(ref);
    void this.#run(ref, webhook, prepared);
    return isClaimed;
  }

  /** A stored attempt is due now. What has been due for longer comes first. */
  #beginDue(ref: AttemptRef): void {
    const now = performance.now();
    const isNext = !this.#schedule.hasDue && this.#schedule.room(this.#schedule.of(ref, now), now) > 0;
    if (isNext) void this.#claimOne(ref);
    else this.look(ref);
  }

  // One attempt, from its claim to its record.

  #run(ref: AttemptRef, webhook: Webhook, preparing: Promise<PreparedAttempt>): Promise<void> {
    this.#schedule.hold(webhook);
    const ended = this.#send(webhook, preparing)
      // apart from the sending, which keeps the body: many outcomes wait to be written together
      .then(async (finish) => {
        const following = await finish?.();
        if (following) this.expect([following]);
      })
      .finally(() => {
        this.#held.delete(ref.deliveryId);
        this.#schedule.recorded();
        if (this.#schedule.mayClaimOthers) this.#claim();
        if (!this.#onWanted || this.wantedFirsts === 0) return;
        const tell = this.#onWanted;
        this.#onWanted = null;
        tell();
      });
    this.#held.set(ref.deliveryId, ended);
    return ended;
  }

  /** Resolves when the request has ended, with what records it; `undefined` if none was made. */
  async #send(webhook: Webhook, preparing: Promise<PreparedAttempt>): Promise<FinishAttempt | undefined> {
    const { ready, limit } = await preparing;
    if (limit) this.#limit(webhook, limit.perSecond, ready ? 0 : limit.wait);
    if (!ready) {
      this.#vacate(webhook);
      return undefined;
    }
    if (limit && limit.wait > 0) await sleep(limit.wait);
    if (!(await this.#takePlace(webhook))) {
      await ready.giveBack();
      this.#vacate(webhook);
      return undefined;
    }
    const startedAt = performance.now();
    const finish = await ready.send();
    const now = performance.now();
    this.#schedule.end(webhook, now - startedAt, now);
    for (let next = this.#schedule.next(); next; next = this.#schedule.next()) next.item(true);
    this.#vacate(webhook);
    return finish;
  }

  /** Takes a place. Resolves to `false` if none becomes free in time. */
  async #takePlace(webhook: Webhook): Promise<boolean> {
    if (this.#isClosed) return false;
    if (this.#schedule.hasPlace(webhook)) {
      this.#schedule.begin(webhook);
      return true;
    }
    return new Promise((resolve) => {
      const item = (hasPlace: boolean) => {
        clearTimeout(timer);
        if (hasPlace) this.#schedule.begin(webhook);
        resolve(hasPlace);
      };
      const timer = setTimeout(() => {
        this.#schedule.leave(webhook, item, true);
        item(false);
      }, this.#maxWait);
      this.#schedule.wait(webhook, item);
    });
  }

  /** A rate limit of the webhook was met. @param pause milliseconds before more of its attempts are worth a claim */
  #limit(webhook: Webhook, perSecond: number, pause: number): void {
    if (this.#isClosed) return;
    const ahead = Math.max(1, Math.ceil((perSecond * permitHorizon) / 1_000));
    const wait = pause > 0 ? pause + pauseSlack : 0;
    const { webhookId } = webhook.ref;
    if (!this.#schedule.limits.note(webhookId, ahead, wait, performance.now())) return;
    // nothing is claimed before the end of the pause
    this.#pauses.set(webhookId, performance.now() + wait, () => this.look(webhook.ref));
  }

  /** The attempt needs no place any more: another one of the webhook may have room now. */
  #vacate(webhook: Webhook): void {
    this.#schedule.release(webhook);
    const firsts = this.#firsts.get(webhook.ref.webhookId) ?? [];
    for (let [first] = firsts; first && this.#beginFirst(first.ref, first.begin); [first] = firsts) first.leave(true);
    if (this.#schedule.mayClaim(webhook, performance.now())) this.#claim();
  }
}
