import { isIPv4 } from 'node:net';
import type { Settings } from './environment.ts';

/** Whether only this machine can reach what listens there; `false` if that is not certain. */
function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}

/** Whether only this machine can reach the gateway, as on a developer's machine. */
export function isOnTrial(host: string, production: boolean): boolean {
  return isLoopback(host) && !production;
}

/** What webhooks may use. */
export interface WebhookRules {
  readonly allowHttp: boolean;
  readonly allowPrivateNetworks: readonly string[];
  /** Why the two have these values, for the operator. */
  readonly allowedBecause: string;
}

/** Trials on one machine need receivers on loopback; a gateway that others can reach must not give them access to it. */
export function webhookRules(
  { ALLOW_HTTP, ALLOW_PRIVATE_NETWORKS }: Settings,
  host: string,
  production: boolean,
): WebhookRules {
  const onTrial = isOnTrial(host, production);
  const byDefault = isLoopback(host)
    ? `NODE_ENV is ${production ? '' : 'not '}production`
    : `HOST ${host} is not loopback`;
  return {
    allowHttp: ALLOW_HTTP ?? onTrial,
    allowPrivateNetworks: ALLOW_PRIVATE_NETWORKS ?? (onTrial ? ['127.0.0.0/8', '::1/128'] : []),
    allowedBecause: [
      ...(ALLOW_HTTP === undefined ? [] : ['ALLOW_HTTP is set']),
      ...(ALLOW_PRIVATE_NETWORKS === undefined ? [] : ['ALLOW_PRIVATE_NETWORKS is set']),
      ...(onTrial ? ['HOST is loopback'] : []),
      byDefault,
    ].join(', '),
  };
}
