import type { Accounting } from '../accounting/accounting.ts';
import { accountingOperations } from '../accounting/routes.ts';
import type { RecoveryService } from '../deliveries/recoveries.ts';
import { type DeliveryRoutesDeps, deliveryOperations, recoveryOperations } from '../deliveries/routes.ts';
import { type EventRoutesDeps, eventOperations } from '../events/routes.ts';
import type { OperationTable } from '../http/operation.ts';
import { keyOperations } from '../keys/routes.ts';
import type { KeyService } from '../keys/service.ts';
import type { ProcessService } from '../operator/processes.ts';
import { type AdminRoutesDeps, adminOperations, processOperations } from '../operator/routes.ts';
import type { ModelProxy } from '../proxy/proxy.ts';
import type { SessionOperations } from '../sockets/session-calls.ts';
import type { ListStored } from '../stored/overview.ts';
import { storageOperations } from '../stored/routes.ts';
import {
  type HealthRoutesDeps,
  healthOperations,
  type WebhookRoutesDeps,
  webhookOperations,
} from '../webhooks/routes.ts';

/** The parts that answer requests. */
export interface RouterParts {
  /** The model endpoints. */
  readonly models: ModelProxy['operations'] & SessionOperations;
  readonly webhooks: WebhookRoutesDeps;
  readonly deliveries: DeliveryRoutesDeps;
  readonly recoveries: RecoveryService;
  readonly health: HealthRoutesDeps;
  readonly keys: KeyService;
  readonly accounting: Accounting;
  readonly listStored: ListStored;
  readonly events: EventRoutesDeps;
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
  accounting,
  listStored,
  events,
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
    ...accountingOperations(accounting),
    ...storageOperations(listStored),
    ...eventOperations(events),
    ...adminOperations(admin),
    ...processOperations(processes),
  };
}
