import { checkSettings } from './check-settings.ts';
import type { Configuration } from './config.ts';
import { type DatabaseSettings, databaseSettings } from './database-settings.ts';
import { type Environment, readSettings, settingOf } from './environment.ts';
import { omitUndefined } from './omit-undefined.ts';
import { upstreamsOf, warningsOf } from './upstream-settings.ts';
import { isOnTrial, webhookRules } from './webhook-rules.ts';

/** What the command `doctor` checks, beside the database. */
export type DoctorSettings = DatabaseSettings &
  Pick<Configuration, 'upstreams' | 'allowHttp' | 'allowPrivateNetworks' | 'warnings'> & {
    /** Whether only this machine can reach the gateway, as on a developer's machine. */
    readonly isOnTrial: boolean;
  };

/**
 * Reads what there is to check. Nothing is required, and what is set must be right.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readDoctorSettings(env: Environment): DoctorSettings {
  const settings = readSettings(env);
  checkSettings(settings);
  const host = settingOf(settings, 'HOST');
  const production = env.NODE_ENV === 'production';
  const upstreams = upstreamsOf(settings, env);
  return {
    ...databaseSettings(settings),
    ...omitUndefined({ upstreams }),
    ...webhookRules(settings, host, production),
    isOnTrial: isOnTrial(host, production),
    warnings: warningsOf(env, upstreams),
  };
}
