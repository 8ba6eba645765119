import { createHash } from 'node:crypto';
import type { EventInput } from '../../events/service.ts';
import { createSetAsideLog, isItemFailure } from '../../mongo/batcher.ts';
import type { Logger } from '../../options/options.ts';
import { createPublishOrLog } from '../publish-or-log.ts';
import type { ExceededDocument, ExceededModel } from './model.ts';

export interface ClosingDeps {
  readonly exceeded: ExceededModel;
  readonly publish: (input: EventInput, options: { readonly idempotencyKey: string }) => Promise<unknown>;
  /** How long a window stays open after its end, for counts that arrive late. Milliseconds. */
  readonly grace: number;
  readonly logger: Logger;
}

const batchSize = 100;

/** The same in every process, and short enough for an idempotency key. */
function idempotencyKeyOf({ _id }: ExceededDocument): string {
  return `rate_limit.exceeded:${createHash('sha256').update(_id).digest('hex')}`;
}

function toEvent({ userId, apiKeyId, limit, counts, windowStart, windowEnd }: ExceededDocument): EventInput {
  return {
    type: 'rate_limit.exceeded',
    userId,
    data: {
      user_id: userId,
      api_key_id: apiKeyId ?? 'none',
      limit,
      rejected_requests: Object.values(counts).reduce((sum, count) => sum + count, 0),
      window_start: windowStart.toISOString(),
      window_end: windowEnd.toISOString(),
    },
  };
}

/**
 * Closes the windows that are over by the database's clock, and publishes each. May run in any number of processes at
 * once and may stop at any step: a closed window no longer changes, and its idempotency key is derived from it.
 */
export function createClosing({ exceeded, publish, grace, logger }: ClosingDeps): () => Promise<void> {
  const publishOrLog = createPublishOrLog(publish, logger);
  const logSetAside = createSetAsideLog(logger, 'refused calls cannot be published and were left out');

  async function publishWindow(window: ExceededDocument): Promise<void> {
    try {
      await publishOrLog(toEvent(window), { idempotencyKey: idempotencyKeyOf(window) });
    } catch (error) {
      if (!isItemFailure(error)) throw error;
      // a retry would fail too, and would delay the windows after it
      logSetAside(error);
    }
    await exceeded.updateOne({ _id: window._id }, [{ $set: { state: 'published', expiresAt: '$$NOW' } }], {
      updatePipeline: true,
    });
  }

  return async function closeWindows() {
    const isOver = { $expr: { $lt: ['$windowEnd', { $subtract: ['$$NOW', grace] }] } };
    // usually there is none
    if (!(await exceeded.exists({ state: { $in: ['open', 'closed'] }, ...isOver }))) return;
    await exceeded.updateMany({ state: 'open', ...isOver }, { $set: { state: 'closed' } });
    const closed = await exceeded.find({ state: 'closed' }).sort({ windowEnd: 1 }).limit(batchSize).lean();
    for (const window of closed) await publishWindow(window);
  };
}
