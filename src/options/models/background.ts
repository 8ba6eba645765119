import { checkIntegers, refuseOption } from '../checks.ts';

/** Background responses (`background: true`). Durations are milliseconds. */
export interface BackgroundOptions {
  /**
   * How long after its first answer the upstream is asked whether such a response has ended. Each further wait is half as
   * long again, up to `backgroundPollLimit`. @default 2_000
   */
  readonly backgroundPollInterval?: number;
  /** The longest wait between two polls of one response. @default 60_000 */
  readonly backgroundPollLimit?: number;
  /**
   * How long the gateway follows such a response. One that has not ended by then is charged by estimate, and a warning is
   * logged. At most seven days. @default 86_400_000, a day
   */
  readonly backgroundTimeout?: number;
}

export const backgroundDefaults = {
  backgroundPollInterval: 2_000,
  backgroundPollLimit: 60_000,
  backgroundTimeout: 86_400_000,
} satisfies BackgroundOptions;

const bounds = {
  backgroundPollInterval: [10, 60_000],
  backgroundPollLimit: [10, 3_600_000],
  backgroundTimeout: [1_000, 604_800_000],
} as const;

/** @throws GatewayError `invalid_options` */
export function checkBackgroundOptions(options: Required<BackgroundOptions>): void {
  checkIntegers(options, bounds);
  if (options.backgroundPollLimit < options.backgroundPollInterval) {
    refuseOption('backgroundPollLimit', `must be backgroundPollInterval (${options.backgroundPollInterval}) or more`);
  }
}
