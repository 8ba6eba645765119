import { addDashboard } from '../dashboard/dashboard.ts';
import { createSendTest } from '../deliveries/redeliver.ts';
import { type DeliveryRoutesDeps, explain } from '../deliveries/routes.ts';
import { createInFlightLimit } from '../fairness/account-shares.ts';
import { createApi, createReadLimit, createWriteLimit } from '../http/api.ts';
import { type Authenticator, byBearerToken, checkedAuthenticate, createAuthenticator } from '../http/authentication.ts';
import { addOpenApiRoutes } from '../http/openapi-routes.ts';
import type { OperationTable, RequestObserver } from '../http/operation.ts';
import type { OpenRequests } from '../http/request.ts';
import { createRouter, type GatewayRouter, modelPaths } from '../http/router.ts';
import type { AuthenticateKey } from '../keys/verify-key.ts';
import { createDatabaseBudget, type DatabaseAccess } from '../mongo/connection/availability.ts';
import type { ResolvedOptions } from '../options/options.ts';
import { toHealthBody } from '../webhooks/routes.ts';
import { operationTable } from './operation-table.ts';
import type { Services } from './services.ts';

/** What a gateway's router is made from. */
export interface RouterDeps {
  readonly services: Services;
  readonly options: ResolvedOptions;
  readonly access: DatabaseAccess;
  readonly authenticator: Authenticator;
  /** Told of each request that has ended. */
  readonly observers: readonly RequestObserver[];
  readonly openRequests: OpenRequests;
}

function deliveryRoutes({ services, options, access }: RouterDeps): DeliveryRoutesDeps {
  const { deliveries, events, webhooks } = services;
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
      limit: createInFlightLimit(options.concurrencyPerAccount, 'test events'),
    }),
  };
}

function operationsOf(deps: RouterDeps): OperationTable {
  const { webhooks, health, events, recoveries, keys, accounting, listStored, proxy, catalogue, sessionOperations } =
    deps.services;
  return operationTable({
    models: { ...proxy.operations, ...sessionOperations },
    webhooks: { service: webhooks, health: async (id) => toHealthBody(await health.of(id), explain, Date.now()) },
    deliveries: deliveryRoutes(deps),
    recoveries,
    health: { health, requireWebhook: webhooks.get, explain },
    keys,
    accounting,
    listStored,
    events: {
      publish: events.publish,
      history: deps.services.eventHistory,
      catalogue,
    },
    admin: { service: deps.services.admin, explain },
    processes: deps.services.processes,
  });
}

/**
 * Says who makes requests, by the host's functions or by the gateway's own keys.
 * @param authenticateKey says whose an API key of the gateway's own is
 */
export function authenticatorOf(options: ResolvedOptions, authenticateKey: AuthenticateKey): Authenticator {
  const { dashboard } = options;
  return createAuthenticator({
    byKey: options.authenticate
      ? checkedAuthenticate('authenticate', options.authenticate)
      : byBearerToken(authenticateKey),
    bySession: dashboard?.authenticate && checkedAuthenticate('dashboard.authenticate', dashboard.authenticate),
  });
}

/** What a form has beside the file in it. Bytes. */
const formLength = 64 * 1024;

/** Makes the router of a gateway: the API, and the dashboard. */
export async function createGatewayRouter(deps: RouterDeps): Promise<GatewayRouter> {
  const { services, options, access, authenticator, observers, openRequests } = deps;
  const { dashboard, logger } = options;
  const { spec } = services;
  const operations = operationsOf(deps);
  const addApi = await createApi({
    spec,
    operations,
    withDatabase: access.run,
    modelBodyLimit: options.modelBodyLimit,
    webhookBodyLimit: options.webhookBodyLimit,
    streamLimit: options.maxFileBytes + formLength,
    bodyMemory: options.bodyMemory,
    limitWrites: createWriteLimit(options.managementRateLimit),
    limitReads: createReadLimit(options.readRateLimit),
    openRequests,
    observers,
    logger,
  });
  const router = createRouter(logger, modelPaths(spec, operations));
  if (dashboard)
    addDashboard(router, { dashboard, reference: options.serveOpenApi, authenticator, addApi, openRequests, logger });
  else addApi(router, authenticator.byKey);
  // behind the API, so that its requests do not pass these
  if (options.serveOpenApi) addOpenApiRoutes(router, { openRequests, logger });
  return router;
}
