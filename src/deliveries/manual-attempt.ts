import { randomUUID } from 'node:crypto';
import { GatewayError } from '../errors.ts';
import type { SendRates } from '../fairness/send-rates.ts';
import { fromNow, momentIfSlow } from '../mongo/clock.ts';
import { durableCollection } from '../mongo/collection.ts';
import { LeaseKeeper, Leases } from '../mongo/lease.ts';
import { persist } from '../mongo/writes.ts';
import type { AttemptDeps } from './attempt.ts';
import {
  type AttemptResult,
  type ClaimsDeps,
  recordLate,
  refOf,
  sendMargin,
  startOf,
  toDelivered,
  toEndedAttempt,
} from './claims.ts';
import type { Claim } from './model.ts';
import { type DeliveryRequest, NotSentError, toDeliveryRequest } from './send.ts';

/** Manual attempts that a delivery keeps; new ones replace the oldest. */
const maxManualAttempts = 50;

/** The states of the deliveries that a recovery sends again. */
export const recoverableStates = ['failed', 'canceled'] as const;

export interface ManualAttemptDeps
  extends Pick<
      ClaimsDeps,
      'deliveries' | 'clock' | 'owner' | 'lease' | 'renewInterval' | 'retention' | 'onAttempt' | 'onEnded'
    >,
    Pick<AttemptDeps, 'send' | 'target' | 'body' | 'userAgent' | 'pendingWork' | 'logger' | 'closed'> {
  readonly sendRates: Pick<SendRates, 'wait'>;
}

const isPending = { $eq: ['$state', 'pending'] };

/** The attempts with this one added, and without the oldest manual one if there are too many. */
function withManualAttempt(record: object) {
  const manual = { $filter: { input: '$attempts', cond: '$$this.manual' } };
  const withoutOldest = {
    $filter: { input: '$attempts', cond: { $ne: ['$$this.startedAt', { $first: '$$manual.startedAt' }] } },
  };
  const others = { $cond: [{ $lt: [{ $size: '$$manual' }, maxManualAttempts] }, '$attempts', withoutOldest] };
  return { $concatArrays: [{ $let: { vars: { manual }, in: others } }, [{ $literal: record }]] };
}

/**
 * The right to make attempts that were asked for, and every write under it. A manual attempt and a scheduled one of the same
 * delivery exclude each other: neither can be claimed while the other's lease is held.
 */
function createManualClaims(deps: ManualAttemptDeps) {
  const { deliveries, clock, owner, lease: duration, renewInterval, retention, logger } = deps;
  const collection = durableCollection(deliveries);
  const leases = new Leases(collection, { fence: 'manual.token', until: 'manual.until', duration });
  const held = ({ delivery, token }: Claim) => ({ _id: delivery._id, fence: token });
  /** Neither a manual nor a scheduled attempt is in flight; a lapsed lease does not count. */
  const isFree = {
    $and: [leases.isFree, { $or: [{ $eq: ['$lease', null] }, { $lte: ['$claimableAt', '$$NOW'] }] }],
  };
  /** A pending delivery's next attempt may not start before the lease is over, nor before it is due. */
  const notBefore = { $max: ['$dueAt', fromNow(duration)] };
  const outOfTheWay = { lease: null, claimableAt: { $cond: [isPending, notBefore, '$$REMOVE'] } };
  /** A worker has claimed the next attempt only if the lease had lapsed. */
  const isWaiting = { $and: [isPending, { $eq: ['$lease', null] }] };
  const stillOutOfTheWay = { claimableAt: { $cond: [isWaiting, notBefore, '$claimableAt'] } };
  const backToItsTime = { claimableAt: { $cond: [isWaiting, '$dueAt', '$claimableAt'] } };

  return {
    isFree,
    keeper: new LeaseKeeper<Claim>({
      name: 'renewing the leases of resends',
      async renew(claims) {
        const renewals = claims.map((claim) => ({ ...held(claim), claim }));
        return (await leases.renew(renewals, { set: stillOutOfTheWay })).map(({ claim }) => claim);
      },
      duration,
      interval: renewInterval,
      logger,
    }),

    async take(filter: object, more: object): Promise<Claim | null> {
      const token = randomUUID();
      const manual = { 'manual.owner': owner, 'manual.token': token, 'manual.startedAt': '$$NOW' };
      const askedAt = performance.now();
      const taken = await leases.take(filter, { ...manual, ...outOfTheWay, ...more });
      if (!taken?.document.manual) return null;
      const { document: delivery, heldUntil } = taken;
      const answered = { time: taken.document.manual.startedAt, monotonic: performance.now() };
      const claimedAt = (await momentIfSlow(clock, askedAt)) ?? answered;
      return { delivery, token, claimedAt, heldUntil };
    },

    async giveBack(claim: Claim): Promise<void> {
      await leases.write(held(claim), { manual: '$$REMOVE', recoveredBy: '$$REMOVE', ...backToItsTime });
    },

    /** Resolves to `false` if the claim of a failed attempt was lost. */
    async record(claim: Claim, result: AttemptResult): Promise<boolean> {
      const attempt = { manual: true as const, ...result, startedAt: startOf(claim, result) };
      const following = result.code === undefined ? toDelivered(retention) : backToItsTime;
      const set = { manual: '$$REMOVE', attempts: withManualAttempt(attempt), ...following };
      if (await leases.write(held(claim), set)) return true;
      return recordLate(collection, claim.delivery._id, attempt, retention);
    },
  };
}

/**
 * Judges a claimed attempt by the webhook and the event as they are now, and waits for the webhook's rate limit.
 * @throws GatewayError `webhook_deleted`, `webhook_inactive`, `event_deleted`
 */
async function requestFor(
  claim: Claim,
  deps: Pick<ManualAttemptDeps, 'target' | 'body' | 'sendRates' | 'userAgent'>,
  maySend: () => boolean,
): Promise<DeliveryRequest> {
  const { webhookId, eventId, userId } = claim.delivery;
  const [target, body] = await Promise.all([
    deps.target(webhookId, ({ active }) => active),
    deps.body({ _id: eventId, userId }),
  ]);
  if (!target) {
    const reason = `The webhook ${webhookId} has been deleted, so there is nowhere to send this`;
    throw new GatewayError('webhook_deleted', reason);
  }
  if (!target.active) throw webhookInactive(webhookId);
  if (!body) {
    const reason = `The event ${eventId} is no longer stored, so there is nothing to send`;
    throw new GatewayError('event_deleted', reason);
  }
  const { rateLimit } = target;
  if (rateLimit !== undefined) await deps.sendRates.wait({ ...refOf(claim.delivery), rateLimit });
  return toDeliveryRequest(claim, target, body, deps.userAgent, maySend);
}

/** Attempts that were asked for, outside the schedule. */
export type ManualAttempts = ReturnType<typeof createManualAttempts>;

export function createManualAttempts(deps: ManualAttemptDeps) {
  const { isFree, keeper, take, giveBack, record } = createManualClaims(deps);

  /** @throws only if nothing was sent */
  async function post(claim: Claim): Promise<AttemptResult> {
    try {
      const request = await requestFor(claim, deps, () => keeper.lasts(claim, sendMargin));
      return await deps.send(request);
    } catch (error) {
      await giveBack(claim);
      throw error instanceof NotSentError ? attemptInFlight() : error;
    }
  }

  return {
    /** Claims an attempt now, whatever the delivery's state; `null` if one is in flight or there is no such delivery. */
    claim: (userId: string, deliveryId: string) => take({ _id: deliveryId, userId, $expr: isFree }, {}),

    /** The same for a recovery: also `null` if the recovery has sent this delivery before, or there is no need. */
    claimFor(recoveryId: string, deliveryId: string): Promise<Claim | null> {
      const unsent = { $ne: ['$recoveredBy', recoveryId] };
      // a free delivery that still has a lease was claimed by a process that died
      const unfinished = { $ne: [{ $type: '$manual' }, 'missing'] };
      const isToSend = { $and: [isFree, { $or: [unsent, unfinished] }] };
      const filter = { _id: deliveryId, state: { $in: recoverableStates }, $expr: isToSend };
      return take(filter, { recoveredBy: recoveryId });
    },

    giveBack,

    /**
     * Judges, signs, sends and records a claimed attempt. A success ends the delivery; a failure changes nothing else.
     * @throws GatewayError `webhook_deleted`, `webhook_inactive`, `event_deleted`, or `attempt_in_flight` if the claim was lost;
     *   nothing was sent
     */
    async make(claim: Claim): Promise<AttemptResult> {
      const { delivery } = claim;
      keeper.hold(claim, claim.heldUntil);
      try {
        const result = await post(claim);
        // retried for as long as the database is unavailable
        if (!(await persist(() => record(claim, result), deps))) return result;
        deps.onAttempt(toEndedAttempt(claim, result));
        const hasEnded = result.code === undefined && delivery.state !== 'delivered';
        if (hasEnded && !delivery.test) deps.onEnded('delivered');
        return result;
      } finally {
        void keeper.drop(claim);
      }
    },
  };
}

/** Another attempt of the delivery is under way, or may be. */
export function attemptInFlight(): GatewayError {
  const reason = 'An attempt of this delivery is in flight; try again when it has ended';
  return new GatewayError('attempt_in_flight', reason);
}

export function webhookInactive(id: string): GatewayError {
  return new GatewayError('webhook_inactive', `The webhook ${id} is not active; set active to true first`);
}
