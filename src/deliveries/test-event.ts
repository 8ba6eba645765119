import { setTimeout as sleep } from 'node:timers/promises';
import type { DatabaseBudget } from '../database-access.ts';
import { GatewayError } from '../errors.ts';
import type { PublishedEvent } from '../events/publication.ts';
import type { AttemptRef } from './attempt-ref.ts';
import type { AttemptWait } from './attempt-wait.ts';
import type { DeliveryHistory, ShownDelivery } from './history.ts';
import type { InFlightLimit } from './in-flight-limit.ts';
import { webhookInactive } from './manual-attempt.ts';
import { type Outcome, outcomeWait } from './resend.ts';

/** How often it is looked for the outcome while another process makes the attempt. Milliseconds. */
const lookInterval = 100;

/** A webhook as a test sees it. */
interface Target {
  readonly active: boolean;
  readonly events: readonly string[];
}

export interface SendTestDeps {
  /**
   * What a usual read finds is read again, confirmed, unless `suffices` is true of it.
   * @throws GatewayError `webhook_not_found`
   */
  readonly webhook: (userId: string, id: string, suffices: (webhook: Target) => boolean) => Promise<Target>;
  readonly publishTest: (target: { userId: string; type: string; webhookId: string }) => Promise<PublishedEvent>;
  /** Makes a scheduled attempt in this process if it is due and free. Never rejects. */
  readonly attempt: (bell: AttemptRef) => Promise<void>;
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
export type SendTest = (userId: string, webhookId: string, type: string, budget: DatabaseBudget) => Promise<Outcome>;

export function createSendTest(deps: SendTestDeps): SendTest {
  const { webhook, publishTest, attempt, history, limit, wait = outcomeWait } = deps;

  async function deliveryOf(
    userId: string,
    eventId: string,
    until: number,
    budget: DatabaseBudget,
  ): Promise<ShownDelivery> {
    for (;;) {
      const [found] = (await budget.run(() => history.list(userId, { eventId }))).deliveries;
      if (found) return budget.run(() => history.get(userId, found._id));
      // the fan-out was put off to a worker
      if (performance.now() > until) {
        throw new GatewayError('internal_error', `The test event ${eventId} is stored, but no delivery was made of it`);
      }
      await sleep(lookInterval);
    }
  }

  async function send(...[userId, webhookId, type, budget]: Parameters<SendTest>): Promise<Outcome> {
    const until = performance.now() + wait;
    const takes = ({ active, events }: Target) => active && events.includes(type);
    const { active, events } = await budget.run(() => webhook(userId, webhookId, takes));
    if (!events.includes(type)) {
      const message = `type: the webhook is not subscribed to ${type.slice(0, 60)}, only to ${events.join(', ')}`;
      throw new GatewayError('invalid_value', message, { param: 'type' });
    }
    if (!active) throw webhookInactive(webhookId);
    const event = await budget.run(() => publishTest({ userId, type, webhookId }));
    let delivery = await deliveryOf(userId, event.id, until, budget);
    // a worker here or elsewhere may be quicker: the claim lets one of them make it
    const made = attempt({ deliveryId: delivery._id, webhookId, userId, attempt: 1 });
    const isMade = await deps.hasEnded(made, delivery._id, until - performance.now(), budget);
    for (;;) {
      delivery = await budget.run(() => history.get(userId, delivery._id));
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
