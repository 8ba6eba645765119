import { creditOperations } from './credits/routes.ts';
import type { CreditService } from './credits/service.ts';
import { type EventRoutesDeps, eventOperations } from './events/routes.ts';
import type { OperationTable } from './http/operation.ts';
import { keyOperations } from './keys/routes.ts';
import type { KeyService } from './keys/service.ts';
import { paymentOperations } from './payments/routes.ts';
import type { PaymentService } from './payments/service.ts';
import type { ReportUsage } from './usage/report.ts';
import { usageOperations } from './usage/routes.ts';
import { webhookOperations } from './webhooks/routes.ts';
import type { WebhookService } from './webhooks/service.ts';

/** The parts that answer requests. */
export interface RouterParts {
  /** The model endpoints. */
  readonly models: OperationTable;
  readonly webhooks: WebhookService;
  readonly keys: KeyService;
  readonly usage: ReportUsage;
  readonly events: EventRoutesDeps;
  readonly payments: PaymentService;
  /** `undefined` where credits are off. */
  readonly credits: CreditService | undefined;
}

/** The one table: every operationId of openapi.yaml, and what does it. */
export function operationTable({
  models,
  webhooks,
  keys,
  events,
  payments,
  usage,
  credits,
}: RouterParts): OperationTable {
  return {
    ...models,
    ...webhookOperations(webhooks),
    ...keyOperations(keys),
    ...paymentOperations(payments),
    ...creditOperations(credits),
    ...usageOperations(usage),
    ...eventOperations(events),
  };
}
