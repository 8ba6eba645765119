import { randomInt } from 'node:crypto';
import { GatewayError } from '../errors.ts';
import type { WebhookDocument, WebhookModel } from './model.ts';

/**
 * A free slot out of `0 … count - 1`, any of them, so that callers at the same moment seldom want the same one;
 * `null` where as many are taken as there may be.
 */
export function freeSlot(taken: ReadonlySet<number>, count: number): number | null {
  if (taken.size >= count) return null;
  let slot = randomInt(count);
  while (taken.has(slot)) slot = (slot + 1) % count;
  return slot;
}

function isSlotTaken(error: unknown): boolean {
  const { code, keyPattern } = error as { code?: unknown; keyPattern?: Readonly<Record<string, unknown>> };
  return code === 11000 && keyPattern?.slot !== undefined;
}

/**
 * Stores a webhook in a free slot of its account; when somebody else is quicker, in the next one. The unique index
 * on account and slot is what holds the limit.
 * @throws GatewayError `webhook_limit_reached` where none is free
 */
export async function insertIntoFreeSlot(
  webhooks: WebhookModel,
  maxWebhooks: number,
  webhook: Omit<WebhookDocument, 'slot'>,
): Promise<void> {
  for (;;) {
    const present = await webhooks.find({ userId: webhook.userId }, { _id: 0, slot: 1 }).lean();
    const slot = freeSlot(new Set(present.map((one) => one.slot)), maxWebhooks);
    if (slot === null) {
      throw new GatewayError(
        'webhook_limit_reached',
        `Webhooks in this account: ${present.length}, which is the most it may have; delete one first`,
      );
    }
    try {
      await webhooks.create({ ...webhook, slot });
      return;
    } catch (error) {
      if (!isSlotTaken(error)) throw error;
    }
  }
}
