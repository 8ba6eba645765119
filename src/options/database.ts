import { checkIntegers } from './checks.ts';

/** Without MongoDB. What the gateway does while MongoDB is unavailable. */
export interface DatabaseOptions {
  /**
   * How long a key that this process has checked may still make model calls while the database does not answer. A key
   * that is revoked elsewhere meanwhile works here at most that much longer. 0 to 86_400_000. @default 300_000 (5 min)
   */
  readonly keyGracePeriod?: number;
  /**
   * The most usage records kept in memory until they can be written. Beyond it the oldest are lost, which is logged.
   * 1 to 10_000_000. @default 100_000
   */
  readonly usageBacklog?: number;
}

export const databaseDefaults = { keyGracePeriod: 300_000, usageBacklog: 100_000 } satisfies DatabaseOptions;

const bounds = { keyGracePeriod: [0, 86_400_000], usageBacklog: [1, 10_000_000] } as const;

/** @throws GatewayError `invalid_options`, naming the option */
export function checkDatabaseOptions(options: Required<DatabaseOptions>): void {
  checkIntegers(options, bounds);
}
