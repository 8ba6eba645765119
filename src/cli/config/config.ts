import type { UpstreamOptions } from '../../options/options.ts';
import { checkSettings, requireSecretKeys } from './check-settings.ts';
import { type DatabaseSettings, databaseSettings } from './database-settings.ts';
import { type Environment, readSettings, settingOf } from './environment.ts';
import { omitUndefined } from './omit-undefined.ts';
import { upstreamsOf, warningsOf } from './upstream-settings.ts';
import { type WebhookRules, webhookRules } from './webhook-rules.ts';

/** What the environment says about the stand-alone gateway. */
export interface Configuration extends WebhookRules, DatabaseSettings {
  readonly host: string;
  readonly port: number;
  /** Absent: the demo upstream. */
  readonly upstreams?: readonly UpstreamOptions[];
  /** Milliseconds. Absent: no HSTS. */
  readonly hstsMaxAge?: number;
  /** Whose pages may call the API from a browser; `*` is every origin. Absent: nobody's. */
  readonly corsOrigins?: readonly string[];
  /** Whether NODE_ENV says that this is production. */
  readonly production: boolean;
  /** The least level that is logged. */
  readonly logLevel: 'error' | 'warn' | 'info' | 'silent';
  /** What this process does. */
  readonly role: 'all' | 'api' | 'worker';
  /** How many processes serve. */
  readonly workers: number;
  /** Where the metrics are served; each further process takes the next port. Absent: nowhere. */
  readonly metrics?: { readonly host: string; readonly port: number };
  /** How long requests are still served after SIGTERM, while the process is not ready. Milliseconds. */
  readonly shutdownDelay: number;
  /** What is probably a mistake and works nevertheless, in sentences for the operator. */
  readonly warnings: readonly string[];
}

/**
 * Reads the whole configuration.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readConfiguration(env: Environment): Configuration {
  const settings = readSettings(env);
  checkSettings(settings);
  requireSecretKeys(settings);
  const host = settingOf(settings, 'HOST');
  const production = env.NODE_ENV === 'production';
  const upstreams = upstreamsOf(settings, env);
  const { METRICS_PORT: metricsPort } = settings;
  return {
    ...databaseSettings(settings),
    host,
    port: settingOf(settings, 'PORT'),
    ...omitUndefined({ upstreams, hstsMaxAge: settings.HSTS_MAX_AGE, corsOrigins: settings.CORS_ORIGINS }),
    production,
    logLevel: settingOf(settings, 'LOG_LEVEL'),
    role: settingOf(settings, 'ROLE'),
    workers: settingOf(settings, 'WORKERS'),
    ...(metricsPort !== undefined && { metrics: { host: settingOf(settings, 'METRICS_HOST'), port: metricsPort } }),
    shutdownDelay: settingOf(settings, 'SHUTDOWN_DELAY'),
    ...webhookRules(settings, host, production),
    warnings: warningsOf(env, upstreams),
  };
}
