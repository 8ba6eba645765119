import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../../errors.ts';
import type { LeasedEvent } from '../../events/store/stored-event.ts';
import type { InFlightLimit } from '../../fairness/in-flight-limit.ts';
import type { DatabaseBudget } from '../../mongo/connection/availability.ts';
import type { DeliveryHistory } from '../lists/history.ts';
import type { AttemptWait } from './attempt-wait.ts';
import { webhookInactive } from './manual-attempt.ts';
import { outcomeWait, type ResendResult } from './resend.ts';
import type { MakeTestAttempt } from './test-attempt.ts';

/** How often the outcome is read while another process makes the attempt. Milliseconds. */
const lookInterval = 100;

/** What is sent. */
interface TestEvent {
  readonly type: string;
  /** @default the example of the type */
  readonly data?: Record<string, unknown>;
}

/** The fields of a webhook that a test event needs. */
interface Target {
  readonly active: boolean;
  readonly events: readonly string[];
}

export interface SendTestDeps {
  /**
   * Unless `suffices` is true of the webhook that a usual read finds, a confirmed read follows.
   * @throws GatewayError `webhook_not_found`
   */
  readonly webhook: (userId: string, id: string, suffices: (webhook: Target) => boolean) => Promise<Target>;
  readonly publishTest: (event: TestEvent & { userId: string; webhookId: string }) => Promise<LeasedEvent>;
  readonly attempt: MakeTestAttempt;
  readonly history: DeliveryHistory;
  readonly hasEnded: AttemptWait['hasEnded'];
  /** Limits how many test events of an account run at once. */
  readonly limit: InFlightLimit;
  /** How long to wait for the outcome. Milliseconds. @default 35_000 */
  readonly wait?: number;
}

/**
 * Sends the example of a type, or other data of it, to one webhook, in one attempt, and waits for the outcome.
 * @throws GatewayError `webhook_not_found`, `webhook_inactive`, `unknown_event_type`, `invalid_event_data`, `invalid_value`,
 *   `rate_limit_exceeded`
 */
export type SendTest = (
  userId: string,
  webhookId: string,
  event: TestEvent,
  budget: DatabaseBudget,
) => Promise<ResendResult>;

export function createSendTest(deps: SendTestDeps): SendTest {
  const { webhook, publishTest, attempt, history, limit, wait = outcomeWait } = deps;

  async function send(...[userId, webhookId, test, budget]: Parameters<SendTest>): Promise<ResendResult> {
    const { type } = test;
    const until = performance.now() + wait;
    const takes = ({ active, events }: Target) => active && events.includes(type);
    const { active, events } = await budget.run(() => webhook(userId, webhookId, takes));
    if (!events.includes(type)) {
      const message = `type: the webhook is not subscribed to ${type.slice(0, 60)}, only to ${events.join(', ')}`;
      throw new GatewayError('invalid_value', message, { param: 'type' });
    }
    if (!active) throw webhookInactive(webhookId);
    const event = await budget.run(() => publishTest({ ...test, userId, webhookId }));
    const { deliveryId, ended } = attempt(event);
    const hasEnded = await deps.hasEnded(ended, deliveryId, until - performance.now(), budget);
    for (;;) {
      const delivery = await budget.run(() => history.get(userId, deliveryId));
      // waiting for the receiver does not count
      budget.renew();
      if (delivery.state !== 'pending') return { delivery, ended: true };
      if (!hasEnded || performance.now() > until) return { delivery, ended: false };
      await sleep(lookInterval);
    }
  }

  return async function sendTest(userId, webhookId, test, budget) {
    const leave = limit.enter(userId);
    try {
      return await send(userId, webhookId, test, budget);
    } finally {
      leave();
    }
  };
}
