import { checkIntegers, refuseOption } from '../checks.ts';

/** Deliveries. How events are delivered to webhooks. Durations are milliseconds. */
export interface DeliveryOptions {
  /** The waits before attempts 2, 3, …; at most five, each counted from the end of the attempt before. @default 1 min, 5 min, 30 min, 2 h, 8 h */
  readonly retryDelays?: readonly number[];
  /**
   * Whether the `Retry-After` of a receiver's failure (seconds or a date) can postpone the next attempt: it is then due at the later of
   * schedule and `Retry-After`, at most 24 hours after the attempt. It adds no attempts and makes none earlier.
   * @default false: the schedule is the schedule
   */
  readonly honorRetryAfter?: boolean;
  /** The longest that one delivery attempt may take in all. @default 30_000 */
  readonly attemptTimeout?: number;
  /**
   * Requests of deliveries under way at once in this process. docs/benchmarks.md shows how many deliveries a second 50, 100, 200
   * and 400 make. Beyond 200, they wait for the processor more and more.
   * @default 200
   */
  readonly concurrency?: number;
  /**
   * Of those, requests under way at once to all webhooks of one account, in each process. An account whose receivers hang
   * takes no more. One whose receivers answer quickly can use up to nine tenths of `concurrency` while no other account
   * needs them. An account's share is a part of what the others leave, so that ten that hang leave room for an eleventh. If
   * your gateway has one account, set it to `concurrency`: that is no limit, and keeps nothing for others.
   * @default a quarter of `concurrency`, rounded up
   */
  readonly concurrencyPerAccount?: number;
  /**
   * Of those, requests under way at once to one webhook, in each process. A receiver that hangs never takes more.
   * @default 10
   */
  readonly concurrencyPerWebhook?: number;
  /**
   * Whether webhooks may be plain http. If false, attempts of one that was registered before fail with `http_not_allowed`.
   * @default false, whatever NODE_ENV says
   */
  readonly allowHttp?: boolean;
  /** Networks in CIDR notation that webhooks may reach although they are not public: `10.0.0.0/8`. @default [] */
  readonly allowPrivateNetworks?: readonly string[];
  /** How many deliveries a recovery of one webhook sends again in a second, behind its new events. @default 50 */
  readonly recoverRate?: number;
  /** Days that events and ended deliveries are kept. Nothing pending ever expires. @default 30 */
  readonly retentionDays?: number;
  /**
   * How often a worker looks for work that other processes have left: attempts that are due or abandoned, and events without
   * deliveries. At most 2_000. @default 425
   */
  readonly sweepInterval?: number;
  /**
   * Whether a change stream tells workers at once of what other processes publish. Without it, and where there are no
   * change streams, they find it by their sweeps. @default false
   */
  readonly changeStreams?: boolean;
}

/** When a delivery is attempted again (docs/guarantees.md): after 1 min, 5 min, 30 min, 2 h and 8 h. */
export const defaultRetryDelays: readonly number[] = Object.freeze([60_000, 300_000, 1_800_000, 7_200_000, 28_800_000]);

const defaults = {
  retryDelays: defaultRetryDelays,
  honorRetryAfter: false,
  attemptTimeout: 30_000,
  concurrency: 200,
  concurrencyPerWebhook: 10,
  allowHttp: false,
  allowPrivateNetworks: [],
  recoverRate: 50,
  retentionDays: 30,
  sweepInterval: 425,
  changeStreams: false,
} satisfies DeliveryOptions;

/** What the options of deliveries are where they are left out. */
export function deliveryDefaults({ concurrency = defaults.concurrency }: DeliveryOptions) {
  return { ...defaults, concurrencyPerAccount: Math.ceil(concurrency / 4) };
}

const bounds = {
  attemptTimeout: [1, 30_000],
  concurrency: [1, 10_000],
  concurrencyPerAccount: [1, 10_000],
  concurrencyPerWebhook: [1, 10_000],
  recoverRate: [1, 10_000],
  retentionDays: [1, 3_650],
  sweepInterval: [1, 2_000],
} as const;

function checkRetryDelays(delays: readonly number[]): void {
  if (!Array.isArray(delays) || delays.length > defaultRetryDelays.length) {
    refuseOption('retryDelays', `must be a list of at most ${defaultRetryDelays.length} delays in milliseconds`);
  }
  delays.forEach((delay, i) => {
    if (!Number.isInteger(delay) || delay < 0)
      refuseOption(`retryDelays[${i}]`, 'must be a whole number of milliseconds, 0 or more');
  });
}

/** @throws GatewayError `invalid_options`, naming the option */
export function checkDeliveryOptions(options: Required<DeliveryOptions>): void {
  checkRetryDelays(options.retryDelays);
  if (typeof options.honorRetryAfter !== 'boolean') refuseOption('honorRetryAfter', 'must be true or false');
  checkIntegers(options, bounds);
}
