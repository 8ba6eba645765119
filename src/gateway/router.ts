import { addDashboard } from '../dashboard/dashboard.ts';
import { createSendTest } from '../deliveries/redeliver.ts';
import { type DeliveryRoutesDeps, explain } from '../deliveries/routes.ts';
import { createInFlightLimit } from '../fairness/account-shares.ts';
import { createApi, createReadLimit, createWriteLimit } from '../http/api.ts';
import { addOpenApiRoutes } from '../http/openapi-routes.ts';
import type { OperationTable } from '../http/operation.ts';
import { createRouter, type GatewayRouter, modelPaths } from '../http/router.ts';
import { createDatabaseBudget } from '../mongo/connection/availability.ts';
import { toHealthBody } from '../webhooks/routes.ts';
import { operationTable } from './operations.ts';
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
  const operations = { ...operationsOf(services), ...services.proxy.ownOperations };
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
  const { serveOpenApi: reference, usage } = options;
  const parts = { reference, usage, credits: options.credits !== undefined };
  if (dashboard) addDashboard(router, { dashboard, ...parts, authenticator, addApi, openRequests, logger });
  else addApi(router, authenticator.byKey);
  // behind the API, so that its requests do not pass these
  if (reference) addOpenApiRoutes(router, { spec, openRequests, logger });
  return router;
}
