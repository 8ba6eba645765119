import { type EventRoutesDeps, eventOperations } from './events/routes.ts';
import type { OperationTable } from './http/operation.ts';
import { keyOperations } from './keys/routes.ts';
import type { KeyService } from './keys/service.ts';
import { paymentOperations } from './payments/routes.ts';
import type { PaymentService } from './payments/service.ts';
import { webhookOperations } from './webhooks/routes.ts';
import type { WebhookService } from './webhooks/service.ts';

/** The parts that answer requests. */
export interface RouterParts {
  /** The model endpoints. */
  readonly models: OperationTable;
  readonly webhooks: WebhookService;
  readonly keys: KeyService;
  readonly events: EventRoutesDeps;
  readonly payments: PaymentService;
}

/** The one table: every operationId of openapi.yaml, and what does it. */
export function operationTable({ models, webhooks, keys, events, payments }: RouterParts): OperationTable {
  return {
    ...models,
    ...webhookOperations(webhooks),
    ...keyOperations(keys),
    ...eventOperations(events),
    ...paymentOperations(payments),
  };
}
