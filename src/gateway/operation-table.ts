import { budgetOperations } from '../accounting/budgets/routes.ts';
import type { BudgetService } from '../accounting/budgets/service.ts';
import { creditOperations } from '../accounting/credits/routes.ts';
import type { CreditService } from '../accounting/credits/service.ts';
import { paymentOperations } from '../accounting/payments/routes.ts';
import type { PaymentService } from '../accounting/payments/service.ts';
import type { ReportUsage } from '../accounting/usage/report.ts';
import { usageOperations } from '../accounting/usage/routes.ts';
import { type AdminRoutesDeps, adminOperations } from '../admin/routes.ts';
import type { RecoveryService } from '../deliveries/recoveries.ts';
import { type DeliveryRoutesDeps, deliveryOperations, recoveryOperations } from '../deliveries/routes.ts';
import { type EventRoutesDeps, eventOperations } from '../events/routes.ts';
import type { OperationTable } from '../http/operation.ts';
import { keyOperations } from '../keys/routes.ts';
import type { KeyService } from '../keys/service.ts';
import { processOperations } from '../processes/routes.ts';
import type { ProcessService } from '../processes/service.ts';
import type { ModelProxy } from '../proxy/proxy.ts';
import { type HealthRoutesDeps, healthOperations } from '../webhooks/health/routes.ts';
import { type WebhookRoutesDeps, webhookOperations } from '../webhooks/routes.ts';

/** The parts that answer requests. */
export interface RouterParts {
  /** The model endpoints. */
  readonly models: ModelProxy['operations'];
  readonly webhooks: WebhookRoutesDeps;
  readonly deliveries: DeliveryRoutesDeps;
  readonly recoveries: RecoveryService;
  readonly health: HealthRoutesDeps;
  readonly keys: KeyService;
  /** `undefined` where usage is not counted. */
  readonly usage: ReportUsage | undefined;
  /** `undefined` where usage is not counted. */
  readonly budgets: BudgetService | undefined;
  readonly events: EventRoutesDeps;
  readonly payments: PaymentService;
  /** `undefined` where credits are off. */
  readonly credits: CreditService | undefined;
  readonly admin: AdminRoutesDeps;
  readonly processes: ProcessService;
}

/** The one table: every operationId of openapi.yaml, and what does it. Where the two do not agree, this does not compile. */
export function operationTable({
  models,
  webhooks,
  deliveries,
  recoveries,
  health,
  keys,
  events,
  payments,
  usage,
  budgets,
  credits,
  admin,
  processes,
}: RouterParts): OperationTable {
  return {
    ...models,
    ...webhookOperations(webhooks),
    ...deliveryOperations(deliveries),
    ...recoveryOperations(recoveries),
    ...healthOperations(health),
    ...keyOperations(keys),
    ...paymentOperations(payments),
    ...creditOperations(credits),
    ...usageOperations(usage),
    ...budgetOperations(budgets),
    ...eventOperations(events),
    ...adminOperations(admin),
    ...processOperations(processes),
  };
}
