import { setTimeout as sleep } from 'node:timers/promises';
import type { Outbox } from '../events/outbox.ts';
import { bodyLimit } from '../events/service.ts';
import type { SendRates } from '../fairness/send-rates.ts';
import { timeSince } from '../mongo/clock.ts';
import type { DatabaseBudget } from '../mongo/connection/availability.ts';
import { asUnavailable } from '../mongo/unavailable.ts';
import { persist } from '../mongo/writes.ts';
import type { Logger } from '../options/options.ts';
import type { PendingWork } from '../pending-work.ts';
import type { DeliveryTarget, TargetLookUp } from '../webhooks/webhook.ts';
import { type AttemptResult, type Claims, type ComingAttempt, refOf } from './claims.ts';
import type { Jobs } from './jobs.ts';
import type { AttemptKey, CancelReason, Claim } from './model.ts';
import { nextAfter, type RetryRules } from './retry.ts';
import { type DeliveryRequest, NotSentError, reasonToCancel, type Send, toDeliveryRequest } from './send.ts';

/** After so many starts without an end an attempt counts as failed: an event that crashes workers must stop doing so. */
const startLimit = 4;

/** How long an attempt waits after the gateway could not make it, because it could not read the database or a secret. Milliseconds. */
const retryOwnFailureIn = 1_000;

/** A first attempt that is made before its delivery is stored. */
export interface FirstAttempt {
  readonly claim: Claim;
  /** The event's bytes. */
  readonly body: Buffer;
  /** The webhook, if it was read a moment ago or is being read; `null` if that has confirmed that it is gone. @default it is read */
  readonly target?: DeliveryTarget | Promise<DeliveryTarget | null> | undefined;
}

/** Records the result of an attempt. It needs no place, keeps no body, and resolves with the attempt that follows soon. Never rejects. */
export type FinishAttempt = () => Promise<ComingAttempt | undefined>;

/** A claimed attempt that is ready to be sent. */
export interface ReadyAttempt {
  /** Makes the request. Resolves when it has ended. Never rejects. */
  send(): Promise<FinishAttempt>;
  /** Leaves the attempt to the next process that claims it. Never rejects. */
  giveBack(): Promise<void>;
}

/** What a claim and its judgement have come to. */
export interface PreparedAttempt {
  /** `null` when there is nothing to send, or not yet. */
  readonly ready: ReadyAttempt | null;
  /** Set if the webhook has a rate limit. */
  readonly limit?: {
    /** Requests a second. */
    readonly perSecond: number;
    /** In how many milliseconds the request may be sent; if it is not ready, in how many another one may be claimed. */
    readonly wait: number;
  };
}

/** An attempt that is being claimed. Neither promise rejects. */
export interface ClaimedAttempt {
  /** Whether this process has the claim: the write is done. */
  readonly isClaimed: Promise<boolean>;
  readonly prepared: Promise<PreparedAttempt>;
}

export interface AttemptDeps extends RetryRules {
  readonly claims: Pick<Claims, 'claim' | 'maySend' | 'record' | 'cancel' | 'giveBack' | 'drop'>;
  readonly jobs: Pick<Jobs, 'schedule' | 'shortestWait'>;
  readonly send: Send;
  /** Reads a webhook with its opened secrets. */
  readonly target: TargetLookUp;
  readonly body: Outbox['body'];
  readonly sendRates: Pick<SendRates, 'take'>;
  /** `express-model-gateway/<version>`. */
  readonly userAgent: string;
  readonly pendingWork: PendingWork;
  readonly logger: Logger;
  /** Aborted when the gateway has closed: what is not recorded by then is left to a later claim. @default never */
  readonly closed?: AbortSignal;
}

const nothing: PreparedAttempt = { ready: null };

/** What bodies that were read for claimed attempts may take until these have their places. Bytes. */
const aheadLimit = 32 * 1024 * 1024;

/** Bounds the bytes of bodies that are read ahead, however many attempts are claimed. The next ones wait in line. */
class RoomAhead {
  readonly #waiting: (() => void)[] = [];
  #free = aheadLimit;

  /** Resolves when there is room for a body: how large it is is known once it is read. */
  async enter(): Promise<void> {
    if (this.#free < bodyLimit) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#free -= bodyLimit;
  }

  leave(bytes: number): void {
    this.#free += bytes;
    while (this.#free >= bodyLimit) {
      const enter = this.#waiting.shift();
      if (!enter) return;
      this.#free -= bodyLimit;
      enter();
    }
  }
}

/**
 * Makes scheduled attempts. The road of one: claim, judge, send, record. Nothing here rejects: if something goes wrong, the attempt is
 * left to a later claim.
 */
export class Attempts {
  readonly #deps: AttemptDeps;
  readonly #room = new RoomAhead();

  constructor(deps: AttemptDeps) {
    this.#deps = deps;
  }

  /** Claims the attempt if it is due and free, and reads and judges what it needs. */
  prepare(attempt: AttemptKey): ClaimedAttempt {
    const claiming = this.#deps.claims.claim(attempt).catch((error) => {
      this.#deps.logger.warn('an attempt was left to the next sweep', { ...attempt, reason: String(error) });
      return null;
    });
    const prepared = claiming.then((claim) => (claim ? this.#prepareClaimed(claim) : nothing));
    return { isClaimed: claiming.then((claim) => claim !== null), prepared };
  }

  /** The same for a first attempt, which the lease of its event claims. */
  prepareFirst({ claim, body, target }: FirstAttempt): Promise<PreparedAttempt> {
    return this.#judge(claim, this.#target(claim, target), body);
  }

  async #prepareClaimed(claim: Claim): Promise<PreparedAttempt> {
    const { eventId, userId } = claim.delivery;
    await this.#room.enter();
    const body = this.#deps.body({ _id: eventId, userId });
    const size = body.then(
      (bytes) => bytes?.length ?? 0,
      () => 0,
    );
    void size.then((bytes) => this.#room.leave(bodyLimit - bytes));
    const release = () => void size.then((bytes) => this.#room.leave(bytes));
    const { ready, ...prepared } = await this.#judge(claim, this.#target(claim), body);
    if (!ready) {
      release();
      return { ready, ...prepared };
    }
    const send = () => {
      release();
      return ready.send();
    };
    const giveBack = () => {
      release();
      return ready.giveBack();
    };
    return { ready: { send, giveBack }, ...prepared };
  }

  /** Makes an attempt at once, outside the scheduler's limits. */
  async make(preparing: Promise<PreparedAttempt>): Promise<void> {
    const { ready, limit } = await preparing;
    if (!ready) return;
    if (limit) await sleep(limit.wait);
    const finish = await ready.send();
    await finish();
  }

  /** The webhook. One that was read a moment ago is read again before it ends a delivery. */
  async #target({ delivery }: Claim, read?: FirstAttempt['target']): Promise<DeliveryTarget | null> {
    const target = await read;
    if (target === null || (target && reasonToCancel(delivery, target) === null)) return target;
    return this.#deps.target(delivery.webhookId, (target) => reasonToCancel(delivery, target) === null);
  }

  /** Judges a claimed attempt by the webhook and the event as they are now. */
  async #judge(
    claim: Claim,
    readingTarget: Promise<DeliveryTarget | null>,
    readingBody: Promise<Buffer | null> | Buffer,
  ): Promise<PreparedAttempt> {
    const { claims, sendRates } = this.#deps;
    const { delivery } = claim;
    const reading = Promise.all([readingTarget, readingBody]);
    // awaited below, unless the attempt ends before
    reading.catch(() => {});
    try {
      if (delivery.starts > startLimit) {
        await this.#end(claim, () => this.#record(claim, { code: 'worker_crashed', durationMs: 0, response: '' }));
        return nothing;
      }
      const [target, body] = await reading;
      if (!target) return await this.#cancel(claim, 'webhook_deleted');
      if (!body) return await this.#cancel(claim, 'event_deleted');
      const reason = reasonToCancel(delivery, target);
      if (reason) return await this.#cancel(claim, reason);
      const ready = this.#ready(claim, target, body);
      const { rateLimit: perSecond } = target;
      if (perSecond === undefined) return { ready };
      const { isGranted, wait } = await sendRates.take({ ...refOf(delivery), rateLimit: perSecond, waits: false });
      const limit = { perSecond, wait };
      if (isGranted) return { ready, limit };
      await this.#end(claim, () => claims.giveBack(claim, wait));
      return { ready: null, limit };
    } catch (error) {
      await this.#end(claim, () => this.#postpone(claim, error));
      return nothing;
    }
  }

  async #cancel(claim: Claim, reason: CancelReason): Promise<PreparedAttempt> {
    await this.#end(claim, () => this.#deps.claims.cancel(claim, reason));
    return nothing;
  }

  #ready(claim: Claim, target: DeliveryTarget, body: Buffer): ReadyAttempt {
    const { claims, send, userAgent } = this.#deps;
    return {
      send: async () => {
        try {
          const result = await send(toDeliveryRequest(claim, target, body, userAgent, () => claims.maySend(claim)));
          return this.#recording(claim, result);
        } catch (error) {
          return this.#postponing(claim, error);
        }
      },
      giveBack: () => this.#end(claim, () => claims.giveBack(claim, 0)),
    };
  }

  // made apart from `send`: what a function can reach stays in memory, and that one reaches the body

  #recording(claim: Claim, result: AttemptResult): FinishAttempt {
    return () => this.#end(claim, () => this.#record(claim, result));
  }

  #postponing(claim: Claim, error: unknown): FinishAttempt {
    return () => this.#end(claim, () => this.#postpone(claim, error));
  }

  /**
   * Records what came of the attempt, for as long as the database is unavailable: an attempt that is not recorded is made again.
   * @returns the attempt that follows, if that is too soon for a job
   */
  async #record(claim: Claim, result: AttemptResult): Promise<ComingAttempt | undefined> {
    const { claims, jobs, pendingWork } = this.#deps;
    const { delivery } = claim;
    const next = nextAfter(claim, result, this.#deps);
    // not later than by the clock of the write
    const endedAt = timeSince(claim.claimedAt).getTime();
    const recorded = await persist(() => claims.record(claim, result, next), this.#deps);
    if (recorded === 'lost' || !('retryIn' in next)) return undefined;
    const following = { ...refOf(delivery), attempt: delivery.attempt + 1 };
    if (next.retryIn < jobs.shortestWait) return { ...following, wait: next.retryIn };
    pendingWork.add(jobs.schedule(following, new Date(endedAt + next.retryIn)));
    return undefined;
  }

  /** The gateway could not make the attempt: it does not count, and is made later. */
  async #postpone(claim: Claim, reason: unknown): Promise<undefined> {
    const { claims, logger } = this.#deps;
    const level = reason instanceof NotSentError ? 'warn' : 'error';
    logger[level]('an attempt could not be made', { ...refOf(claim.delivery), reason: String(reason) });
    await claims.giveBack(claim, retryOwnFailureIn);
  }

  /** Ends the claim with a write. If the write fails, the lease lapses and a sweep finds the attempt. */
  async #end<Result>(claim: Claim, write: () => Promise<Result>): Promise<Result | undefined> {
    const { claims, logger } = this.#deps;
    try {
      return await write();
    } catch (error) {
      logger.warn('an attempt was left to the next sweep', { ...refOf(claim.delivery), reason: String(error) });
      return undefined;
    } finally {
      claims.drop(claim);
    }
  }
}

/** How often the wait checks whether the attempt still waits for its receiver. Milliseconds. */
const lookInterval = 100;

export type AttemptWait = ReturnType<typeof createAttemptWait>;

/** Knows which attempts of this process wait for their receiver: that may take long, but the database may not. */
export function createAttemptWait(send: Send) {
  const sending = new Set<string>();

  return {
    /** The same `send`, which also records what is under way. */
    async send(request: DeliveryRequest): Promise<AttemptResult> {
      const { deliveryId = '' } = request.attempt ?? {};
      sending.add(deliveryId);
      try {
        return await send(request);
      } finally {
        sending.delete(deliveryId);
      }
    },
    /**
     * Waits for an attempt, `wait` milliseconds at most, and resolves with whether it has ended; if not, it continues. Waiting
     * for the receiver does not use the budget.
     */
    async hasEnded(attempt: Promise<unknown>, deliveryId: string, wait: number, budget: DatabaseBudget) {
      const ended = attempt.then(
        () => true,
        (error: unknown) => {
          throw asUnavailable(error);
        },
      );
      ended.catch(() => {});
      const until = performance.now() + wait;
      const look = () => Promise.race([ended, sleep(lookInterval, false, { ref: false })]);
      while (performance.now() < until) {
        if (await (sending.has(deliveryId) ? look() : budget.run(look))) return true;
      }
      return false;
    },
  };
}
