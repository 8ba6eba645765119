import { leastBodyMemory } from './accounts.ts';
import { type Fixed, fixed } from './fixed.ts';
import { checkWholeNumber, isObject, refuseOption, refuseUnknown } from './kinds.ts';
import { faultTolerant } from './logger.ts';
import type { ModelGatewayOptions, Quota, ResolvedOptions } from './options.ts';
import { checkQuotaObject, checkRows, isGroupOfAll, type OptionPath, rowsIn } from './table.ts';

/**
 * Checks the options and fills in the defaults.
 * @throws GatewayError `invalid_options`, naming the option in `param` and the fix in the message
 */
export function resolveOptions(
  given: ModelGatewayOptions,
  { socketMessageBytes }: Pick<Fixed, 'socketMessageBytes'> = fixed,
): ResolvedOptions {
  const rows = rowsIn();
  const names = rows.map(([name]) => name);
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) refuseUnknown(name, names.sort());
  }
  const options = withDefaults(given, given) as ResolvedOptions;
  checkRows({ ...options });
  checkTogether(options, socketMessageBytes);
  return Object.freeze({ ...options, logger: faultTolerant(options.logger) });
}

/** Options with the defaults of what is left out, also in the groups that every gateway has; what is wrong stays, to be refused. */
function withDefaults(options: object, given: ModelGatewayOptions, group?: OptionPath): object {
  const stated = Object.entries(options).filter(([, value]) => value !== undefined);
  const defaults = rowsIn(group).map(([name, row]) => [
    name,
    typeof row.default === 'function' ? row.default(given) : row.default,
  ]);
  const filled = [...defaults, ...stated].map(([name, value]) => {
    const path = (group === undefined ? name : `${group}.${name}`) as OptionPath;
    return [name, isGroupOfAll(path) && isObject(value) ? withDefaults(value, given, path) : value];
  });
  return Object.freeze(Object.fromEntries(filled.filter(([, value]) => value !== undefined)));
}

/** What is right only with other options. */
function checkTogether(options: ResolvedOptions, socketMessageBytes: number): void {
  const { usage, quotas, credits } = options;
  if (typeof quotas?.perUser === 'object' && quotas.perUser.unit === 'credits' && credits === undefined) {
    refuseOption('quotas.perUser.unit', "'credits' needs the option credits, for its prices");
  }
  for (const name of ['quotas', 'credits'] as const) {
    if (options[name] !== undefined && !usage) refuseOption('usage', `must be true for the option ${name}`);
  }
  const least = leastBodyMemory(options.limits, socketMessageBytes);
  checkWholeNumber('limits.bodyMemory', options.limits.bodyMemory, least, 1024 ** 4);
}

/** Checks what a host's function gives as a quota. @throws GatewayError `invalid_options` */
export function checkQuota(quota: Quota): void {
  checkQuotaObject('quotas.perUser', quota);
}
