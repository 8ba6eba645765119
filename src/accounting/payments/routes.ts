import type { components } from '../../api.d.ts';
import { refuse } from '../../errors.ts';
import type { OperationTable } from '../../http/operation.ts';
import type { PaymentService } from './service.ts';

type Schemas = components['schemas'];
type Status = Schemas['PaymentReport']['status'];
type Completed = Pick<Schemas['CompletedPaymentReport'], 'credits_added'>;
type Failed = Pick<Schemas['FailedPaymentReport'], 'reason'>;

/** @throws GatewayError `missing_required_parameter` unless the field, which this status needs, has a value */
function required<T>(status: Status, name: string, value: T | undefined): T {
  if (value !== undefined) return value;
  return refuse('missing_required_parameter', name, `is required with the status ${status}`);
}

/** @throws GatewayError `unknown_parameter` if a field that this status does not have has a value */
function requireAbsent(status: Status, name: string, value: unknown): void {
  if (value === undefined) return;
  refuse('unknown_parameter', name, `does not belong to the status ${status}`);
}

/** The operation by which a billing service reports payments. */
export function paymentOperations(service: PaymentService) {
  return {
    reportPayment: {
      async handle({ body, headers }) {
        const { status, payment_id: paymentId, user_id: userId, amount, currency } = body;
        const { credits_added, reason } = body as Partial<Completed & Failed>;
        const payment = { paymentId, userId, amount, currency };
        const key = headers['idempotency-key'];
        const report = async () => {
          if (status === 'completed') {
            requireAbsent(status, 'reason', reason);
            return service.completed({ ...payment, creditsAdded: required(status, 'credits_added', credits_added) });
          }
          requireAbsent(status, 'credits_added', credits_added);
          const failed = { ...payment, reason: required(status, 'reason', reason) };
          return service.failed(failed, key === undefined ? {} : { idempotencyKey: key });
        };
        const { idempotencyKey, data, ...event } = await report();
        const answer: Schemas['PublishedEvent'] = {
          ...event,
          user_id: userId,
          // publishing types it as unknown, for a host's own types; these are objects
          data: data as Schemas['EventData'],
          idempotency_key: idempotencyKey,
        };
        return { status: 201, body: answer };
      },
    },
  } satisfies Partial<OperationTable>;
}
