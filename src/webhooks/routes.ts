import type { components } from '../api.d.ts';
import type { OperationTable, Reply } from '../http/operation.ts';
import { type AttemptStats, type HealthService, healthState } from './health.ts';
import type { HealthDocument } from './model.ts';
import type { WebhookService } from './service.ts';
import type { MadeSecret, Webhook, WebhookDetails } from './webhook.ts';

type Schemas = components['schemas'];
type Summary = Schemas['WebhookSummary'];

function toSummary(webhook: Webhook): Summary {
  const { id, url, events, active, description, metadata, filters, rateLimit, headerNames } = webhook;
  return {
    id,
    url,
    // the document lists the gateway's own types; a host's types are added to it at start-up
    events: [...events] as Summary['events'],
    active,
    ...(description !== undefined && { description }),
    ...(metadata !== undefined && { metadata }),
    ...(filters !== undefined && { filters: filters as Schemas['WebhookFilters'] }),
    ...(rateLimit !== undefined && { rate_limit: rateLimit }),
    ...(headerNames !== undefined && { header_names: [...headerNames] }),
  };
}

function toBody(webhook: Webhook): Schemas['Webhook'] {
  return { ...toSummary(webhook), created_at: webhook.createdAt.toISOString() };
}

/** A webhook and its health, as the API shows them. */
export function toDetailsBody(
  { rotation, disabled, ...webhook }: WebhookDetails,
  health: Schemas['WebhookHealth'],
): Schemas['WebhookDetails'] {
  return {
    ...toBody(webhook),
    secret_rotation: rotation && {
      ends_at: rotation.endsAt.toISOString(),
      service_signature: rotation.serviceSignature,
    },
    disabled: disabled && { at: disabled.at.toISOString(), reason: disabled.reason },
    health,
  };
}

/** Adds a generated secret. Only this answer has it, so no cache may store it. */
function withSecret<Status extends number, Answer extends object>(
  reply: Reply<Status, Answer>,
  { secret }: MadeSecret,
): Reply<Status, Answer & { secret?: string }> {
  if (secret === undefined) return reply;
  return { ...reply, body: { ...reply.body, secret }, headers: { 'cache-control': 'no-store' } };
}

export interface WebhookRoutesDeps {
  readonly service: WebhookService;
  /** The health of a webhook, from its attempts. */
  readonly health: (webhookId: string) => Promise<Schemas['WebhookHealth']>;
}

export function webhookOperations({ service, health }: WebhookRoutesDeps) {
  return {
    createWebhook: {
      async handle({ principal, body: { rate_limit: rateLimit, ...fields } }) {
        const input = { ...fields, ...(rateLimit !== undefined && { rateLimit }) };
        const webhook = await service.create(principal.userId, input);
        return withSecret({ status: 201, body: toBody(webhook) }, webhook);
      },
    },
    listWebhooks: {
      async handle({ principal, query }) {
        const { webhooks, hasMore } = await service.list(principal.userId, query);
        return { status: 200, body: { data: webhooks.map(toSummary), has_more: hasMore } };
      },
    },
    retrieveWebhook: {
      async handle({ principal, params }) {
        const webhook = await service.get(principal.userId, params.id);
        return { status: 200, body: toDetailsBody(webhook, await health(webhook.id)) };
      },
    },
    updateWebhook: {
      async handle({ principal, params, body: { rate_limit: rateLimit, ...fields } }) {
        const patch = { ...fields, ...(rateLimit !== undefined && { rateLimit }) };
        const webhook = await service.update(principal.userId, params.id, patch);
        return { status: 200, body: toBody(webhook) };
      },
    },
    rotateWebhookSecret: {
      async handle({ principal, params, body }) {
        const { secret, overlap_seconds, service_signature } = body ?? {};
        const webhook = await service.rotateSecret(principal.userId, params.id, {
          ...(secret !== undefined && { secret }),
          ...(overlap_seconds !== undefined && { overlapSeconds: overlap_seconds }),
          ...(service_signature !== undefined && { serviceSignature: service_signature }),
        });
        return withSecret({ status: 200, body: toDetailsBody(webhook, await health(webhook.id)) }, webhook);
      },
    },
    deleteWebhook: {
      async handle({ principal, params: { id } }) {
        await service.remove(principal.userId, id);
        return { status: 200, body: { id, deleted: true } };
      },
    },
  } satisfies Partial<OperationTable>;
}

export interface HealthRoutesDeps {
  readonly health: Pick<HealthService, 'of' | 'stats'>;
  /** @throws GatewayError `webhook_not_found`, also for a webhook of another account */
  readonly requireWebhook: (userId: string, webhookId: string) => Promise<unknown>;
  /** Says in words what a failure's code means. */
  readonly explain: (code: string) => string;
}

function toFailureBody(
  { lastFailure }: Partial<HealthDocument>,
  explain: HealthRoutesDeps['explain'],
): Schemas['WebhookFailure'] | null {
  if (!lastFailure) return null;
  const { at, deliveryId, status, code } = lastFailure;
  return { at: at.toISOString(), delivery_id: deliveryId, status: status ?? null, code, explanation: explain(code) };
}

/** The health of a webhook, as the API shows it. @param now milliseconds since 1970 */
export function toHealthBody(
  health: Partial<HealthDocument>,
  explain: HealthRoutesDeps['explain'],
  now: number,
): Schemas['WebhookHealth'] {
  return {
    state: healthState(health, now),
    failing_since: health.failingSince?.toISOString() ?? null,
    last_success_at: health.lastSuccessAt?.toISOString() ?? null,
    last_failure: toFailureBody(health, explain),
  };
}

const counts = ({ succeeded, failed }: AttemptStats) => ({ succeeded, failed });
const times = ({ p50, p95 }: AttemptStats) => ({ p50_ms: p50, p95_ms: p95 });

export function healthOperations(deps: HealthRoutesDeps) {
  return {
    retrieveWebhookStats: {
      async handle({ principal, params: { id } }) {
        await deps.requireWebhook(principal.userId, id);
        const [stats, health] = await Promise.all([deps.health.stats(id, Date.now()), deps.health.of(id)]);
        const attempts = stats.succeeded + stats.failed;
        const body: Schemas['WebhookStats'] = {
          webhook_id: id,
          since: stats.since.toISOString(),
          until: stats.until.toISOString(),
          attempts,
          ...counts(stats),
          success_rate: attempts === 0 ? null : stats.succeeded / attempts,
          ...times(stats),
          last_failure: toFailureBody(health, deps.explain),
          hours: stats.hours.map((hour) => ({ start: hour.start.toISOString(), ...counts(hour), ...times(hour) })),
        };
        return { status: 200, body };
      },
    },
  } satisfies Partial<OperationTable>;
}
