import { GatewayError } from '../errors.ts';
import type { EventInput, PublishOptions } from '../events/service.ts';
import type { Logger } from '../options/options.ts';

type KeyedOptions = PublishOptions & { readonly idempotencyKey: string };

/**
 * Makes the function that publishes an event. If the event itself is refused, it is logged instead: a retry would fail too, and what
 * it reports has to be stored all the same.
 */
export function createPublishOrLog(
  publish: (event: EventInput, options: KeyedOptions) => Promise<unknown>,
  logger: Pick<Logger, 'error'>,
) {
  return async function publishOrLog(event: EventInput, options: KeyedOptions): Promise<void> {
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
