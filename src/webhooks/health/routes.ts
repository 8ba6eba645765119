import type { components } from '../../api.d.ts';
import type { OperationTable } from '../../http/operation.ts';
import { healthState } from './health-state.ts';
import type { HealthDocument } from './model.ts';
import type { HealthService } from './service.ts';
import type { AttemptStats } from './stats.ts';

type Schemas = components['schemas'];

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
  return {
    at: at.toISOString(),
    delivery_id: deliveryId,
    status: status ?? null,
    code,
    explanation: explain(code),
  };
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

/** The operation that reads the statistics of a webhook. */
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
