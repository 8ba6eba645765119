import type { components } from '../../../api.d.ts';
import type { ApiRequest, OperationTable } from '../../../http/operation.ts';
import type { RecoveryDocument } from './model.ts';
import type { RecoveryService } from './service.ts';

type Schemas = components['schemas'];

function toBody(recovery: RecoveryDocument): Schemas['Recovery'] {
  const { _id, webhookId, state, since, until, states, found, resent, delivered, failed } = recovery;
  return {
    id: _id,
    webhook_id: webhookId,
    state,
    since: since.toISOString(),
    until: until.toISOString(),
    states,
    found,
    resent,
    delivered,
    failed,
    started_at: recovery.startedAt.toISOString(),
    ended_at: recovery.endedAt?.toISOString() ?? null,
  };
}

/** The operations on recoveries of an account's webhooks. */
export function recoveryOperations(service: RecoveryService): OperationTable {
  return {
    recoverWebhook: {
      async handle({ principal, params: { id = '' }, body }: ApiRequest<Schemas['RecoveryCreate']>) {
        const { since, until, states } = body;
        const recovery = await service.recover(principal.userId, id, {
          since: new Date(since),
          ...(until !== undefined && { until: new Date(until) }),
          ...(states !== undefined && { states }),
        });
        return { status: 202, body: toBody(recovery) };
      },
    },
    listRecoveries: {
      async handle({ principal, params: { id = '' }, query: { limit, after } }) {
        const { recoveries, hasMore } = await service.list(principal.userId, id, {
          ...(limit !== undefined && { limit: Number(limit) }),
          ...(after !== undefined && { after: String(after) }),
        });
        const body: Schemas['RecoveryList'] = { data: recoveries.map(toBody), has_more: hasMore };
        return { status: 200, body };
      },
    },
    retrieveRecovery: {
      async handle({ principal, params: { id = '', recovery_id = '' } }) {
        return { status: 200, body: toBody(await service.get(principal.userId, id, recovery_id)) };
      },
    },
  };
}
