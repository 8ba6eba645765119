import type { Accounting } from '../accounting/accounting.ts';
import { accountingOperations } from '../accounting/routes.ts';
import { addDashboard } from '../dashboard/dashboard.ts';
import type { RecoveryService } from '../deliveries/recoveries.ts';
import { createSendTest } from '../deliveries/redeliver.ts';
import { type DeliveryRoutesDeps, deliveryOperations, explain, recoveryOperations } from '../deliveries/routes.ts';
import { type EventRoutesDeps, eventOperations } from '../events/routes.ts';
import { createInFlightLimit } from '../fairness/account-shares.ts';
import { createApi, createReadLimit, createWriteLimit } from '../http/api.ts';
import { type Authenticator, byBearerToken, checkedAuthenticate, createAuthenticator } from '../http/authentication.ts';
import { addOpenApiRoutes } from '../http/openapi-routes.ts';
import type { OperationTable, RequestObserver } from '../http/operation.ts';
import type { OpenRequests } from '../http/request.ts';
import { createRouter, type GatewayRouter, modelPaths } from '../http/router.ts';
import { keyOperations } from '../keys/routes.ts';
import type { KeyService } from '../keys/service.ts';
import type { AuthenticateKey } from '../keys/verify-key.ts';
import { createDatabaseBudget, type DatabaseAccess } from '../mongo/connection/availability.ts';
import type { ProcessService } from '../operator/processes.ts';
import { type AdminRoutesDeps, adminOperations, processOperations } from '../operator/routes.ts';
import type { ResolvedOptions } from '../options/options.ts';
import type { ModelProxy } from '../proxy/proxy.ts';
import type { SessionOperations } from '../sockets/session-calls.ts';
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

function operationsOf(deps: RouterDeps): OperationTable {
  const { webhooks, health, events, eventHistory, catalogue, proxy, sessionOperations, admin } = deps.services;
  return operationTable({
    ...deps.services,
    models: { ...proxy.operations, ...sessionOperations },
    webhooks: { service: webhooks, health: async (id) => toHealthBody(await health.of(id), explain, Date.now()) },
    deliveries: deliveryRoutes(deps),
    health: { health, requireWebhook: webhooks.get, explain },
    events: { publish: events.publish, history: eventHistory, catalogue },
    admin: { service: admin, explain },
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
