import { refuseOption } from '../checks.ts';

/** A webhook that is about to be disabled. */
export interface DisabledWebhook {
  /** `wh_…` */
  readonly id: string;
  readonly userId: string;
  readonly url: string;
  readonly events: readonly string[];
  /** `gone`: it answered 410. `failing`: it failed everything for `disableAfterDays`. */
  readonly reason: 'gone' | 'failing';
}

/** Automatic disabling of webhooks. Off by default. */
export interface DisableOptions {
  /** Disables a webhook after this many days of nothing but failed attempts, at least three. 1 to 365. @default never */
  readonly disableAfterDays?: number;
  /** Disables a webhook that answers 410 Gone. @default false */
  readonly disableOnGone?: boolean;
  /**
   * Called before a webhook is disabled, so that you can tell its owner. `false`, or a promise of it, keeps it enabled: a
   * failing one for a day, then this is called again; one that is gone until the next 410.
   * @default every such webhook is disabled
   */
  readonly onDisable?: (webhook: DisabledWebhook) => unknown;
}

/**
 * Checks when webhooks are disabled.
 * @throws GatewayError `invalid_options`, naming the option
 */
export function checkDisableOptions({ disableAfterDays, disableOnGone }: DisableOptions): void {
  if (typeof disableOnGone !== 'boolean') refuseOption('disableOnGone', 'must be true or false');
  if (disableAfterDays === undefined) return;
  if (typeof disableAfterDays !== 'number' || !(disableAfterDays >= 1 && disableAfterDays <= 365)) {
    refuseOption('disableAfterDays', `must be a number of days from 1 to 365, not ${String(disableAfterDays)}`);
  }
}
