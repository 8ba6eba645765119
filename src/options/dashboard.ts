import type { IncomingMessage } from 'node:http';
import type { Principal } from '../http/principal.ts';
import { checkKeys, refuseOption } from './checks.ts';

/** The page where customers see their webhooks, and who may open it. */
export interface DashboardOptions {
  /** Its path below the router's mount point, such as `/dashboard`. Not `/v1` or a path below it. */
  readonly path: string;
  /**
   * Returns who is signed in, by your own session; `null` if the request has no session. It is called only on the
   * dashboard's paths, and only for requests that a page of the same origin makes, so that a cookie cannot be used from
   * another site. A principal without `scopes` sees webhooks, API keys, usage and credits. With `scopes: ['webhooks']` it
   * sees only webhooks. In front of Express, the request has no session of Express's: read the cookie from its headers.
   * @default API keys alone
   */
  readonly authenticate?: (req: IncomingMessage) => Principal | null | Promise<Principal | null>;
}

const knownOptions = ['path', 'authenticate'];

/**
 * Checks the option `dashboard`.
 * @throws GatewayError `invalid_options`, naming the option
 */
export function checkDashboardOptions(dashboard: DashboardOptions): void {
  if (typeof dashboard !== 'object' || dashboard === null)
    refuseOption('dashboard', "must be an object: { path: '/dashboard' }");
  checkKeys('dashboard', dashboard, knownOptions);
  const { path, authenticate } = dashboard;
  if (typeof path !== 'string' || !/^(\/[\w.~-]+)+$/.test(path) || /^\/v1(\/|$)|\/\.{1,2}(\/|$)/.test(path)) {
    refuseOption('dashboard.path', `must be a path such as '/dashboard', outside /v1, without a slash at its end`);
  }
  if (authenticate !== undefined && typeof authenticate !== 'function') {
    refuseOption('dashboard.authenticate', 'must be a function');
  }
}
