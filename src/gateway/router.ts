import type { Accounting } from '../accounting/accounting.ts';
import { accountingOperations } from '../accounting/routes.ts';
import { addDashboard } from '../dashboard/dashboard.ts';
import type { RecoveryService } from '../deliveries/recoveries.ts';
import { createSendTest } from '../deliveries/redeliver.ts';
import { type DeliveryRoutesDeps, deliveryOperations, explain, recoveryOperations } from '../deliveries/routes.ts';
import { type EventRoutesDeps, eventOperations } from '../events/routes.ts';
import { createInFlightLimit } from '../fairness/account-shares.ts';
import { createApi, createReadLimit, createWriteLimit } from '../http/api.ts';
import { addOpenApiRoutes } from '../http/openapi-routes.ts';
import type { OperationTable } from '../http/operation.ts';
import { createRouter, type GatewayRouter, modelPaths } from '../http/router.ts';
import { keyOperations } from '../keys/routes.ts';
import type { KeyService } from '../keys/service.ts';
import { createDatabaseBudget } from '../mongo/connection/availability.ts';
import type { ProcessService } from '../operator/processes.ts';
import { type AdminRoutesDeps, adminOperations, processOperations } from '../operator/routes.ts';
import type { ListStored } from '../stored/overview.ts';
import { storageOperations } from '../stored/routes.ts';
import {
  type HealthRoutesDeps,
  healthOperations,
  toHealthBody,
  type WebhookRoutesDeps,
  webhookOperations,
} from '../webhooks/routes.ts';
import type { Services } from './services.ts';

function deliveryRoutes({ deliveries, events, webhooks, options, access }: Services): DeliveryRoutesDeps {
  return {
    history: deliveries.history,
    context: deliveries.context,
    resend: deliveries.resend,
    budget: () => createDatabaseBudget(access),
    sendTest: createSendTest({
      history: deliveries.history,
      hasEnded: deliveries.hasEnded,
      makeTestAttempt: deliveries.makeTestAttempt,
      webhook: webhooks.getConfirmed,
      publishTest: (target) => events.publishTest({ ...target, lease: deliveries.lease }),
      limit: createInFlightLimit(options.deliveries.concurrencyPerAccount, 'test events'),
    }),
  };
}

export interface RouterParts {
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
export function operationTable(parts: RouterParts): OperationTable {
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

function operationsOf(services: Services): OperationTable {
  const { webhooks, health, events, eventHistory, catalogue, modelOperations, admin } = services;
  return operationTable({
    ...services,
    models: modelOperations,
    webhooks: { service: webhooks, health: async (id) => toHealthBody(await health.of(id), explain, Date.now()) },
    deliveries: deliveryRoutes(services),
    health: { health, requireWebhook: webhooks.get, explain },
    events: { publish: events.publish, history: eventHistory, catalogue },
    admin: { service: admin, explain },
  });
}

/** What a form has beside the file in it. Bytes. */
const formLength = 64 * 1024;

export function createGatewayRouter(services: Services): GatewayRouter {
  const { spec, options, fixed, access, authenticator, requestObservers: observers, openRequests } = services;
  const { dashboard, logger } = options;
  const operations = operationsOf(services);
  const addApi = createApi({
    spec,
    operations,
    withDatabase: access.run,
    modelBodyLimit: options.limits.modelBodyBytes,
    webhookBodyLimit: fixed.otherBodyBytes,
    streamLimit: options.limits.fileBytes + formLength,
    bodyMemory: services.bodyMemory,
    limitWrites: createWriteLimit(options.limits.writesPerMinute),
    limitReads: createReadLimit(options.limits.readsPerMinute),
    openRequests,
    observers,
    logger,
  });
  const router = createRouter(logger, { models: modelPaths(spec, operations), notServed: spec['x-not-served'] });
  const parts = { reference: options.serveOpenApi, credits: options.credits !== undefined };
  if (dashboard) addDashboard(router, { dashboard, ...parts, authenticator, addApi, openRequests, logger });
  else addApi(router, authenticator.byKey);
  // behind the API, so that its requests do not pass these
  if (options.serveOpenApi) addOpenApiRoutes(router, { openRequests, logger });
  return router;
}
