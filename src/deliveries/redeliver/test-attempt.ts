import type { LeasedEvent } from '../../events/store/stored-event.ts';
import type { Attempts, FirstAttempt } from '../attempt/attempt.ts';
import type { FanOut } from '../fan-out/fan-out.ts';
import { firstDelivery } from '../fan-out/first-delivery.ts';

/** Makes the one attempt of a test event that this process holds. `ended` never rejects. */
export type MakeTestAttempt = (event: LeasedEvent) => { readonly deliveryId: string; readonly ended: Promise<void> };

/** Makes it outside the dispatcher's limits; the caller limits test events. */
export function createMakeTestAttempt(deps: {
  readonly fanOut: Pick<FanOut, 'startWith'>;
  readonly attempts: Pick<Attempts, 'make' | 'makeFirst'>;
}): MakeTestAttempt {
  const { fanOut, attempts } = deps;

  return function makeTestAttempt({ event, lease }) {
    const [webhookId = ''] = event.targets;
    const { _id: deliveryId, userId } = firstDelivery(event, webhookId, 1);

    async function make(): Promise<void> {
      let first: FirstAttempt | undefined;
      if (lease) {
        await fanOut.startWith({ event, lease }, (handed) => {
          first = handed;
        });
      }
      if (first) return attempts.makeFirst(first);
      // the lease had lapsed, so the delivery was stored for any worker to claim
      return attempts.make({ deliveryId, webhookId, userId, attempt: 1 });
    }

    return { deliveryId, ended: make().catch(() => {}) };
  };
}
