import type { ClientSession } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import type { EventInput, PublishedEvent, PublishOptions } from '../../events/publication.ts';
import type { RunInTransaction } from '../../mongo/transaction.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import type { InTurn } from '../writer-turns.ts';
import type { PaymentDocument, PaymentModel } from './model.ts';

/** A payment that the host's payment processor has settled. */
export interface CompletedPayment {
  /** The processor's id of it, `pay_…`. */
  readonly paymentId: string;
  readonly userId: string;
  /** In the major unit of the currency. */
  readonly amount: number;
  /** Three lower-case letters of ISO 4217. */
  readonly currency: string;
  readonly creditsAdded: number;
}

/** A payment that did not come about. */
export interface FailedPayment extends Omit<CompletedPayment, 'creditsAdded'> {
  /** Why, such as `card_declined`. */
  readonly reason: string;
}

export interface PaymentServiceDeps {
  readonly payments: PaymentModel;
  readonly publish: (event: EventInput, options: PublishOptions) => Promise<PublishedEvent>;
  /** Adds the credits in the same transaction, once for each payment. @default they are the host's to add */
  readonly credit?: (
    paid: { readonly userId: string; readonly credits: number; readonly paymentId: string },
    session: ClientSession | undefined,
  ) => Promise<void>;
  /** Runs the transactions of one account one after the other, each within so many milliseconds. @default all of them at once */
  readonly inTurn?: InTurn;
  /** Called first in that transaction: what others write of the account meanwhile would undo it. */
  readonly reserve?: (userId: string, session: ClientSession | undefined) => Promise<void>;
  /** Told when that is committed; resolves when the credits can be spent in this process. */
  readonly credited?: (userId: string) => Promise<void>;
  readonly transaction: RunInTransaction;
}

export interface PaymentService {
  /**
   * Books a completed payment: records it for ever, adds its credits where credits are on, and publishes
   * `payment.completed`, all or nothing, once for each payment id. The same payment again answers the first event.
   * @throws GatewayError `invalid_value`, `invalid_event_data`; `idempotency_conflict` when the id was used for another
   *   payment; `publish_unconfirmed`: report it again, which cannot double it
   */
  completed(payment: CompletedPayment): Promise<PublishedEvent>;
  /**
   * Publishes `payment.failed`.
   * @param options.idempotencyKey names the attempt, where one payment may fail several times.
   *   @default the payment's id: it fails once
   * @throws GatewayError as `publish` does
   */
  failed(payment: FailedPayment, options?: { readonly idempotencyKey?: string }): Promise<PublishedEvent>;
}

function toData({ paymentId, userId, amount, currency, creditsAdded }: CompletedPayment) {
  return { payment_id: paymentId, amount, currency, credits_added: creditsAdded, user_id: userId };
}

function completedKey(paymentId: string): string {
  return `payment.completed:${paymentId}`;
}

/** @throws GatewayError `invalid_value` unless it is an id that can be stored and found again */
function checkPaymentId(paymentId: unknown): asserts paymentId is string {
  const storable = typeof paymentId === 'string' && !/[\0\p{Surrogate}]/u.test(paymentId);
  // with what is put before it, it has to fit an idempotency key
  if (!storable || !paymentId.startsWith('pay_') || paymentId.length < 5 || paymentId.length > 200) {
    throw new GatewayError('invalid_value', 'payment_id: must be pay_ and 1 to 196 more characters', {
      param: 'payment_id',
    });
  }
}

/** The event of a payment booked before. @throws GatewayError `idempotency_conflict` */
function bookedBefore(stored: PaymentDocument, payment: CompletedPayment): PublishedEvent {
  const same =
    stored.userId === payment.userId &&
    stored.amount === payment.amount &&
    stored.currency === payment.currency &&
    stored.creditsAdded === payment.creditsAdded;
  if (!same) {
    const message = `payment_id: '${payment.paymentId}' was booked with another account, amount, currency or credits`;
    throw new GatewayError('idempotency_conflict', message, { param: 'payment_id' });
  }
  return {
    id: stored.eventId,
    type: 'payment.completed',
    created: stored.created.toISOString(),
    data: toData(payment),
    idempotencyKey: completedKey(payment.paymentId),
  };
}

/** Payments, which the host's payment processor makes and this package tells of. */
export function createPaymentService(deps: PaymentServiceDeps): PaymentService {
  const { payments, publish, credit, reserve, credited, transaction, inTurn = (_userId, work) => work() } = deps;

  async function book(payment: CompletedPayment, session: ClientSession | undefined): Promise<PublishedEvent> {
    const { paymentId, userId, amount, currency, creditsAdded } = payment;
    const within = session ? { session } : {};
    await reserve?.(userId, session);
    const stored = await payments.findById(paymentId, null, within).lean();
    if (stored) return bookedBefore(stored, payment);
    const event = { type: 'payment.completed', userId, data: toData(payment) };
    const published = await publish(event, { idempotencyKey: completedKey(paymentId), ...within });
    await credit?.({ userId, credits: creditsAdded, paymentId }, session);
    const { id: eventId, created } = published;
    const record = { _id: paymentId, userId, amount, currency, creditsAdded, eventId, created: new Date(created) };
    await payments.create([record], within);
    return published;
  }

  return {
    async completed(payment) {
      checkPaymentId(payment.paymentId);
      for (let left = 3; ; left -= 1) {
        try {
          const published = await inTurn(payment.userId, (within) =>
            transaction((session) => book(payment, session), within),
          );
          await credited?.(payment.userId);
          return published;
        } catch (error) {
          // somebody booked it, or opened the account's balance, at the same moment: now it is there
          if (!isDuplicateKey(error) || left === 0) throw error;
        }
      }
    },

    async failed({ paymentId, userId, amount, currency, reason }, options = {}) {
      checkPaymentId(paymentId);
      const data = { payment_id: paymentId, amount, currency, user_id: userId, reason };
      const { idempotencyKey = `payment.failed:${paymentId}` } = options;
      return publish({ type: 'payment.failed', userId, data }, { idempotencyKey });
    },
  };
}
