import type { components } from '../../../api.d.ts';
import { toTime } from '../../../http/incoming-time.ts';
import type { OperationTable } from '../../../http/operation.ts';
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
export function recoveryOperations(service: RecoveryService) {
  return {
    recoverWebhook: {
      async handle({ principal, params: { id }, body }) {
        const { since, until, states } = body;
        const recovery = await service.recover(principal.userId, id, {
          since: toTime(since, 'since'),
          ...(until !== undefined && { until: toTime(until, 'until') }),
          ...(states !== undefined && { states }),
        });
        return { status: 202, body: toBody(recovery) };
      },
    },
    listRecoveries: {
      async handle({ principal, params: { id }, query }) {
        const { recoveries, hasMore } = await service.list(principal.userId, id, query);
        return { status: 200, body: { data: recoveries.map(toBody), has_more: hasMore } };
      },
    },
    retrieveRecovery: {
      async handle({ principal, params: { id, recovery_id } }) {
        return { status: 200, body: toBody(await service.get(principal.userId, id, recovery_id)) };
      },
    },
  } satisfies Partial<OperationTable>;
}
