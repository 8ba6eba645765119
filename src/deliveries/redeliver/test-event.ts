import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../../errors.ts';
import type { LeasedEvent } from '../../events/store/outbox.ts';
import type { InFlightLimit } from '../../fairness/in-flight-limit.ts';
import type { DatabaseBudget } from '../../mongo/connection/availability.ts';
import type { Attempts, FirstAttempt } from '../attempt/attempt.ts';
import { type FanOut, firstDelivery } from '../fan-out/fan-out.ts';
import type { DeliveryHistory } from '../history.ts';
import type { AttemptWait } from './attempt-wait.ts';
import { webhookInactive } from './manual-attempt.ts';
import { outcomeWait, type ResendResult } from './resend.ts';

/** How often it is looked for the outcome while another process makes the attempt. Milliseconds. */
const lookInterval = 100;

/** A webhook as a test sees it. */
interface Target {
  readonly active: boolean;
  readonly events: readonly string[];
}

/** Makes the one attempt of a test event that this process holds; `made` never rejects. */
export type AttemptTest = (event: LeasedEvent) => { readonly deliveryId: string; readonly made: Promise<void> };

/** Outside the dispatcher: it is asked for, and bounded by who asks. */
export function createAttemptTest(deps: {
  readonly fanOut: Pick<FanOut, 'handTo'>;
  readonly attempts: Pick<Attempts, 'make' | 'makeFirst'>;
}): AttemptTest {
  const { fanOut, attempts } = deps;

  return function attemptTest({ event, lease }) {
    const [webhookId = ''] = event.targets;
    const { _id: deliveryId, userId } = firstDelivery(event, webhookId, 1);

    async function make(): Promise<void> {
      let first: FirstAttempt | undefined;
      if (lease) {
        await fanOut.handTo({ event, lease }, (handed) => {
          first = handed;
        });
      }
      if (first) return attempts.makeFirst(first);
      // stored for whoever claims it where the lease had lapsed
      return attempts.make({ deliveryId, webhookId, userId, attempt: 1 });
    }

    return { deliveryId, made: make().catch(() => {}) };
  };
}

export interface SendTestDeps {
  /**
   * What a usual read finds is read again, confirmed, unless `suffices` is true of it.
   * @throws GatewayError `webhook_not_found`
   */
  readonly webhook: (userId: string, id: string, suffices: (webhook: Target) => boolean) => Promise<Target>;
  readonly publishTest: (target: { userId: string; type: string; webhookId: string }) => Promise<LeasedEvent>;
  readonly attempt: AttemptTest;
  readonly history: DeliveryHistory;
  readonly hasEnded: AttemptWait['hasEnded'];
  /** Bounds what an account tests at once. */
  readonly limit: InFlightLimit;
  /** How long the answer waits for the outcome. Milliseconds. @default 35_000 */
  readonly wait?: number;
}

/**
 * Sends the example of a type to one webhook, in one attempt, and waits for what comes of it.
 * @throws GatewayError `webhook_not_found`, `webhook_inactive`, `unknown_event_type`, `invalid_value`, `rate_limit_exceeded`
 */
export type SendTest = (
  userId: string,
  webhookId: string,
  type: string,
  budget: DatabaseBudget,
) => Promise<ResendResult>;

export function createSendTest(deps: SendTestDeps): SendTest {
  const { webhook, publishTest, attempt, history, limit, wait = outcomeWait } = deps;

  async function send(...[userId, webhookId, type, budget]: Parameters<SendTest>): Promise<ResendResult> {
    const until = performance.now() + wait;
    const takes = ({ active, events }: Target) => active && events.includes(type);
    const { active, events } = await budget.run(() => webhook(userId, webhookId, takes));
    if (!events.includes(type)) {
      const message = `type: the webhook is not subscribed to ${type.slice(0, 60)}, only to ${events.join(', ')}`;
      throw new GatewayError('invalid_value', message, { param: 'type' });
    }
    if (!active) throw webhookInactive(webhookId);
    const event = await budget.run(() => publishTest({ userId, type, webhookId }));
    const { deliveryId, made } = attempt(event);
    const isMade = await deps.hasEnded(made, deliveryId, until - performance.now(), budget);
    for (;;) {
      const delivery = await budget.run(() => history.get(userId, deliveryId));
      // the receiver may take long
      budget.renew();
      if (delivery.state !== 'pending') return { delivery, ended: true };
      if (!isMade || performance.now() > until) return { delivery, ended: false };
      await sleep(lookInterval);
    }
  }

  return async function sendTest(userId, webhookId, type, budget) {
    const leave = limit.enter(userId);
    try {
      return await send(userId, webhookId, type, budget);
    } finally {
      leave();
    }
  };
}
