import type { ClientSession } from 'mongoose';
import { GatewayError, refuse } from '../errors.ts';
import type { EventInput, PublishedEvent, PublishOptions } from '../events/service.ts';
import { isStorableId } from '../ids.ts';
import { durableCollection } from '../mongo/collection.ts';
import type { CreditService } from './credits.ts';
import type { PaymentDocument, PaymentModel } from './model.ts';
import type { WriteAccount } from './write-account.ts';

/** A payment that the host's payment processor has settled. */
export interface CompletedPayment {
  /** The id of the payment at its processor, such as `pay_…` or `pi_…`. At most 200 characters. */
  readonly paymentId: string;
  readonly userId: string;
  /** In the major unit of the currency. */
  readonly amount: number;
  /** Three lower-case letters of ISO 4217. */
  readonly currency: string;
  readonly creditsAdded: number;
}

/** A payment that failed. */
export interface FailedPayment extends Omit<CompletedPayment, 'creditsAdded'> {
  /** Why, such as `card_declined`. */
  readonly reason: string;
}

export interface PaymentServiceDeps {
  readonly payments: PaymentModel;
  readonly publish: (event: EventInput, options: PublishOptions) => Promise<PublishedEvent>;
  /** Adds the credits in the same transaction, once for each payment. @default the host adds them */
  readonly credits?: Pick<CreditService, 'lock' | 'credit'> | undefined;
  readonly writeAccount: WriteAccount;
}

export type PaymentService = ReturnType<typeof createPaymentService>;

function toData({ paymentId, userId, amount, currency, creditsAdded }: CompletedPayment) {
  return { payment_id: paymentId, amount, currency, credits_added: creditsAdded, user_id: userId };
}

function completedKey(paymentId: string): string {
  return `payment.completed:${paymentId}`;
}

/** @throws GatewayError `invalid_value` unless the id can be stored and found again */
function checkPaymentId(paymentId: unknown): asserts paymentId is string {
  // with the type of the event before it, it has to fit into an idempotency key
  if (!isStorableId(paymentId) || paymentId.length > 200) {
    refuse('invalid_value', 'payment_id', 'must be a string of 1 to 200 characters');
  }
}

/** The event of a payment that is booked already. @throws GatewayError `idempotency_conflict` */
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

/** Books the payments that the host reports, and publishes events about them. */
export function createPaymentService({ payments, publish, credits, writeAccount }: PaymentServiceDeps) {
  const collection = durableCollection(payments);

  async function book(payment: CompletedPayment, session: ClientSession | undefined): Promise<PublishedEvent> {
    const { paymentId, userId, amount, currency, creditsAdded } = payment;
    const inSession = session ? { session } : {};
    // first, because otherwise another write of the balance would abort the transaction
    await credits?.lock(userId, session);
    const stored = await collection.findOne({ _id: paymentId }, inSession);
    if (stored) return bookedBefore(stored, payment);
    const event = { type: 'payment.completed', userId, data: toData(payment) };
    const published = await publish(event, { idempotencyKey: completedKey(paymentId), ...inSession });
    await credits?.credit({ userId, credits: creditsAdded, paymentId }, session);
    const { id: eventId, created } = published;
    const record = { _id: paymentId, userId, amount, currency, creditsAdded, eventId, created: new Date(created) };
    await collection.insertOne(record, inSession);
    return published;
  }

  return {
    /**
     * Books a completed payment in one transaction, once for each payment id: stores it permanently, adds its credits if
     * credits are on, and publishes `payment.completed`. For the same payment it returns the first event again.
     * @throws GatewayError `invalid_value`, `invalid_event_data`; `idempotency_conflict` if the id was used for another
     * payment; `publish_unconfirmed`: report it again, it is not booked twice
     */
    async completed(payment: CompletedPayment): Promise<PublishedEvent> {
      checkPaymentId(payment.paymentId);
      const { userId } = payment;
      return writeAccount(userId, (session) => book(payment, session));
    },

    /**
     * Publishes `payment.failed`.
     * @param options.idempotencyKey names the attempt, if one payment may fail several times.
     *   @default the payment's id: it fails once
     * @throws GatewayError as `publish` does
     */
    async failed(
      { paymentId, userId, amount, currency, reason }: FailedPayment,
      options: { readonly idempotencyKey?: string } = {},
    ): Promise<PublishedEvent> {
      checkPaymentId(paymentId);
      const data = { payment_id: paymentId, amount, currency, user_id: userId, reason };
      const { idempotencyKey = `payment.failed:${paymentId}` } = options;
      return publish({ type: 'payment.failed', userId, data }, { idempotencyKey });
    },
  };
}
