import { GatewayError } from '../errors.ts';
import type { EventInput, PublishOptions } from '../events/service.ts';
import type { Logger } from '../options/options.ts';

type KeyedOptions = PublishOptions & { readonly idempotencyKey: string };

/**
 * Publishes an event. If the event itself is refused, it is logged instead: a retry would fail too, and what it reports has to be
 * stored all the same.
 */
export type PublishOrLog = (event: EventInput, options: KeyedOptions) => Promise<void>;

export function createPublishOrLog(
  publish: (event: EventInput, options: KeyedOptions) => Promise<unknown>,
  logger: Pick<Logger, 'error'>,
): PublishOrLog {
  return async function publishOrLog(event, options) {
    try {
      await publish(event, options);
    } catch (error) {
      const isRefused = error instanceof GatewayError && error.status < 500;
      if (!isRefused) throw error;
      const { param, message: reason } = error;
      logger.error('an event cannot be published', { type: event.type, param, reason });
    }
  };
}
