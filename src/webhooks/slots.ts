import { GatewayError } from '../errors.ts';
import { storeInFreeSlot } from '../mongo/writes/free-slot.ts';
import type { WebhookDocument, WebhookModel } from './model.ts';

/**
 * Stores a webhook in a free slot of its account.
 * @throws GatewayError `webhook_limit_reached` where none is free
 */
export async function insertIntoFreeSlot(
  webhooks: WebhookModel,
  maxWebhooks: number,
  webhook: Omit<WebhookDocument, 'slot'>,
): Promise<void> {
  await storeInFreeSlot({
    count: maxWebhooks,
    async taken() {
      const present = await webhooks.find({ userId: webhook.userId }, { _id: 0, slot: 1 }).lean();
      return new Set(present.map(({ slot }) => slot));
    },
    store: (slot) => webhooks.create({ ...webhook, slot }),
    full: (count) => {
      const message = `Webhooks in this account: ${count}, which is the most it may have; delete one first`;
      return new GatewayError('webhook_limit_reached', message);
    },
  });
}
