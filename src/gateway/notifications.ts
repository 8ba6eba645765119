import type { FailedDelivery } from '../deliveries/claims.ts';
import { callUnawaited, refuse } from '../errors.ts';
import type { Logger } from '../options/options.ts';
import type { DisabledWebhook } from '../options/webhooks.ts';
import type { FailingWebhook, RecoveredWebhook } from '../webhooks/health-changes.ts';

/**
 * What the host is notified of, by name. Each change is notified once, by the process whose write made it, right after that
 * write. If that process dies between the two, the notification is lost.
 */
export interface GatewayNotifications {
  /** The last attempt of a delivery has failed: it is attempted again only on request. */
  readonly 'delivery.failed': FailedDelivery;
  /**
   * At least the last three attempts to an active webhook have failed, over five minutes or more, as `failing` in the API. It is
   * told within about a second of the attempt that makes it so, and not again before `webhook.recovered`, also if the webhook
   * is set inactive and active again. Attempts of test events and resends count.
   */
  readonly 'webhook.failing': FailingWebhook;
  /**
   * An attempt to a webhook that `webhook.failing` named has succeeded, a resend too. It comes within about a second. A
   * webhook that is deleted before is not told of again.
   */
  readonly 'webhook.recovered': RecoveredWebhook;
  /** The gateway has disabled a webhook, by `deliveries.disableAfterDays` or `deliveries.disableOnGone`. */
  readonly 'webhook.disabled': DisabledWebhook;
}

/** The gateway waits for no listener; an error is logged and changes nothing. */
export type NotificationListener<Name extends keyof GatewayNotifications> = (
  notification: GatewayNotifications[Name],
) => unknown;

const names: readonly string[] = [
  'delivery.failed',
  'webhook.failing',
  'webhook.recovered',
  'webhook.disabled',
] satisfies (keyof GatewayNotifications)[];

/** The host's listeners in this process. */
export class Notifications {
  readonly #listeners = new Map<string, Set<(notification: never) => unknown>>();
  readonly #logger: Pick<Logger, 'error'>;

  constructor(logger: Pick<Logger, 'error'>) {
    this.#logger = logger;
  }

  /** @throws GatewayError `invalid_value` for a name that does not exist, or a listener that is no function */
  on<Name extends keyof GatewayNotifications>(name: Name, listener: NotificationListener<Name>): void {
    if (!names.includes(name)) refuse('invalid_value', 'name', `must be one of ${names.join(', ')}`);
    if (typeof listener !== 'function') refuse('invalid_value', 'listener', 'must be a function');
    const listeners = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, listeners.add(listener));
  }

  off<Name extends keyof GatewayNotifications>(name: Name, listener: NotificationListener<Name>): void {
    this.#listeners.get(name)?.delete(listener);
  }

  emit<Name extends keyof GatewayNotifications>(name: Name, notification: GatewayNotifications[Name]): void {
    for (const listener of this.#listeners.get(name) ?? []) {
      callUnawaited(
        () => listener(notification as never),
        (error) => this.#logger.error(`a listener of the host's for ${name} failed`, { error }),
      );
    }
  }
}
