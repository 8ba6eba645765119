import type { components } from '../api.d.ts';
import type { ApiRequest, OperationTable, Reply } from '../http/operation.ts';
import type { WebhookService } from './service.ts';
import type { MadeSecret, Webhook, WebhookDetails } from './webhook.ts';

type Schemas = components['schemas'];
type Summary = Schemas['WebhookSummary'];

function toSummary({ id, url, events, active }: Webhook): Summary {
  return { id, url, events: [...events] as Summary['events'], active };
}

function toBody(webhook: Webhook): Schemas['Webhook'] {
  return { ...toSummary(webhook), created_at: webhook.createdAt.toISOString() };
}

function toDetailsBody(
  { rotation, disabled, ...webhook }: WebhookDetails,
  health: Schemas['WebhookHealth'],
): Schemas['WebhookDetails'] {
  const { endsAt, serviceSignature } = rotation ?? {};
  return {
    ...toBody(webhook),
    secret_rotation:
      endsAt && serviceSignature ? { ends_at: endsAt.toISOString(), service_signature: serviceSignature } : null,
    disabled: disabled && { at: disabled.at.toISOString(), reason: disabled.reason },
    health,
  };
}

/** Adds a secret that was made here: this is the one answer that has it, and nobody on the way may keep it. */
function withSecret(reply: Reply & { readonly body: object }, { secret }: MadeSecret): Reply {
  if (secret === undefined) return reply;
  return { ...reply, body: { ...reply.body, secret }, headers: { 'cache-control': 'no-store' } };
}

/** The id in the path; an empty one is nobody's. */
function idOf({ params }: ApiRequest): string {
  return params.id ?? '';
}

export interface WebhookRoutesDeps {
  readonly service: WebhookService;
  /** How a webhook fares, by the attempts made to it. */
  readonly health: (webhookId: string) => Promise<Schemas['WebhookHealth']>;
}

/** The operations on an account's webhooks. */
export function webhookOperations({ service, health }: WebhookRoutesDeps): OperationTable {
  return {
    createWebhook: {
      async handle(call: ApiRequest<Schemas['WebhookCreate']>) {
        const webhook = await service.create(call.principal.userId, call.body);
        return withSecret({ status: 201, body: toBody(webhook) }, webhook);
      },
    },
    listWebhooks: {
      async handle({ principal, query }) {
        const { limit, after } = query;
        const { webhooks, hasMore } = await service.list(principal.userId, {
          // the validator has proved that it is a number, but not every version of Express lets it be replaced by one
          ...(limit !== undefined && { limit: Number(limit) }),
          ...(after !== undefined && { after: String(after) }),
        });
        return {
          status: 200,
          body: { data: webhooks.map(toSummary), has_more: hasMore } satisfies Schemas['WebhookList'],
        };
      },
    },
    retrieveWebhook: {
      async handle(call) {
        const webhook = await service.get(call.principal.userId, idOf(call));
        return { status: 200, body: toDetailsBody(webhook, await health(webhook.id)) };
      },
    },
    updateWebhook: {
      async handle(call: ApiRequest<Schemas['WebhookUpdate']>) {
        const webhook = await service.update(call.principal.userId, idOf(call), call.body);
        return { status: 200, body: toBody(webhook) };
      },
    },
    rotateWebhookSecret: {
      async handle(call: ApiRequest<Schemas['WebhookSecretRotate']>) {
        const { secret, overlap_seconds, service_signature } = call.body;
        const webhook = await service.rotateSecret(call.principal.userId, idOf(call), {
          ...(secret !== undefined && { secret }),
          ...(overlap_seconds !== undefined && { overlapSeconds: overlap_seconds }),
          ...(service_signature !== undefined && { serviceSignature: service_signature }),
        });
        return withSecret({ status: 200, body: toDetailsBody(webhook, await health(webhook.id)) }, webhook);
      },
    },
    deleteWebhook: {
      async handle(call) {
        const id = idOf(call);
        await service.remove(call.principal.userId, id);
        return { status: 200, body: { id, deleted: true } satisfies Schemas['WebhookDeleted'] };
      },
    },
  };
}
