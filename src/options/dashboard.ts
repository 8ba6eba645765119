import type { IncomingMessage } from 'node:http';
import type { Principal } from '../http/operation.ts';
import { checkKeys, refuse } from './checks.ts';

/** The page where customers see their webhooks, and who may open it. */
export interface DashboardOptions {
  /** Where it is below the router's mount point, such as `/dashboard`. Not `/v1`, nor below it. */
  readonly path: string;
  /**
   * Says who is signed in at the host, by its own session; `null` is nobody. Asked on the dashboard's paths alone, and
   * only for requests that a page of the same origin makes, so that a cookie cannot be used from another site. A principal
   * without `scopes` sees webhooks, API keys, usage and credits; `scopes: ['webhooks']` leaves it at webhooks. In front of
   * Express there is no session of Express's in the request: read the cookie from its headers.
   * @default API keys alone
   */
  readonly authenticate?: (req: IncomingMessage) => Principal | null | Promise<Principal | null>;
}

const known = ['path', 'authenticate'];

/**
 * Checks the option `dashboard`.
 * @throws GatewayError `invalid_options`, naming the option
 */
export function checkDashboardOptions(dashboard: DashboardOptions): void {
  if (typeof dashboard !== 'object' || dashboard === null)
    refuse('dashboard', "must be an object: { path: '/dashboard' }");
  checkKeys('dashboard', dashboard, known);
  const { path, authenticate } = dashboard;
  if (typeof path !== 'string' || !/^(\/[\w.~-]+)+$/.test(path) || /^\/v1(\/|$)|\/\.{1,2}(\/|$)/.test(path)) {
    refuse('dashboard.path', `must be a path such as '/dashboard', outside /v1, without a slash at its end`);
  }
  if (authenticate !== undefined && typeof authenticate !== 'function') {
    refuse('dashboard.authenticate', 'must be a function');
  }
}
