import { checkWholeNumber, refuseOption } from './kinds.ts';
import { faultTolerant } from './logger.ts';
import type { ModelGatewayOptions, Quota, ResolvedOptions } from './options.ts';
import { leastBodyMemory } from './process.ts';
import { checkQuotaObject, checkRows, rowsIn } from './table.ts';

/**
 * Checks the options and fills in the defaults.
 * @throws GatewayError `invalid_options`, naming the option in `param` and the fix in the message
 */
export function resolveOptions(given: ModelGatewayOptions): ResolvedOptions {
  const rows = rowsIn();
  const names = rows.map(([name]) => name);
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) refuseOption(name, `is not an option; there are ${names.sort().join(', ')}`);
  }
  const defaults = rows.map(([name, { default: value }]) => [name, typeof value === 'function' ? value(given) : value]);
  const stated = [...defaults, ...Object.entries(given)].filter(([, value]) => value !== undefined);
  const options: ResolvedOptions = Object.fromEntries(stated);
  checkRows({ ...options });
  checkTogether(options);
  return Object.freeze({ ...options, logger: faultTolerant(options.logger) });
}

/** What is right only with other options. */
function checkTogether(options: ResolvedOptions): void {
  const { usage, quotas, credits, backgroundPollInterval } = options;
  if (typeof quotas?.perUser === 'object' && quotas.perUser.unit === 'credits' && credits === undefined) {
    refuseOption('quotas.perUser.unit', "'credits' needs the option credits, for its prices");
  }
  for (const name of ['quotas', 'credits'] as const) {
    if (options[name] !== undefined && !usage) refuseOption('usage', `must be true for the option ${name}`);
  }
  checkWholeNumber('bodyMemory', options.bodyMemory, leastBodyMemory(options), 1024 ** 4);
  if (options.backgroundPollLimit < backgroundPollInterval) {
    refuseOption('backgroundPollLimit', `must be backgroundPollInterval (${backgroundPollInterval}) or more`);
  }
}

/** Checks what a host's function gives as a quota. @throws GatewayError `invalid_options` */
export function checkQuota(quota: Quota): void {
  checkQuotaObject('quotas.perUser', quota);
}
