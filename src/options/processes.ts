import { checkIntegers, refuseOption } from './checks.ts';

/** Process records. What each process stores about itself for the operator. */
export interface ProcessOptions {
  /**
   * How often this process renews its record, which `/v1/admin/processes` shows. It counts as live for three times as long.
   * Milliseconds, at most 60_000. @default 10_000
   */
  readonly processInterval?: number;
  /** Whether this process serves requests: `false` only changes the role in its record to `worker`. @default true */
  readonly servesRequests?: boolean;
}

export const processDefaults = { processInterval: 10_000, servesRequests: true } satisfies ProcessOptions;

const bounds = { processInterval: [100, 60_000] } as const;

/** @throws GatewayError `invalid_options` */
export function checkProcessOptions(options: Required<ProcessOptions>): void {
  checkIntegers(options, bounds);
  if (typeof options.servesRequests !== 'boolean') refuseOption('servesRequests', 'must be true or false');
}
