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
import type { ListStored } from '../stored/overview.ts';
import { storageOperations } from '../stored/routes.ts';
import {
  type HealthRoutesDeps,
  healthOperations,
  type WebhookRoutesDeps,
  webhookOperations,
} from '../webhooks/routes.ts';
import type { Services } from './services.ts';

/** What each operation asks. */
export interface OperationParts {
  /** The model endpoints. */
  readonly models: Services['modelOperations'];
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
export function operationTable(parts: OperationParts): OperationTable {
  return {
    ...parts.models,
    ...webhookOperations(parts.webhooks),
    ...deliveryOperations(parts.deliveries),
    ...recoveryOperations(parts.recoveries),
    ...healthOperations(parts.health),
    ...keyOperations(parts.keys),
    ...accountingOperations(parts.accounting),
    ...storageOperations(parts.listStored),
    ...eventOperations(parts.events),
    ...adminOperations(parts.admin),
    ...processOperations(parts.processes),
  };
}
