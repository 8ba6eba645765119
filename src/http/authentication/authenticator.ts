import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../errors.ts';
import type { Principal } from '../principal.ts';
import { hostOf } from '../request/target.ts';
import type { Authenticate } from './principal.ts';

/** Who makes a request, and what shows it. */
interface Authenticated {
  readonly principal: Principal;
  readonly via: 'key' | 'session';
}

/** What {@link createAuthenticator} asks. */
export interface AuthenticatorDeps {
  /** Reads the credentials in the Authorization header. */
  readonly byKey: Authenticate;
  /** Reads the host's own session. @default there are no sessions */
  readonly bySession?: Authenticate | undefined;
}

/** Says who makes a request, or throws. */
export interface Authenticator {
  /** @throws GatewayError `missing_api_key`, `invalid_authorization` or `invalid_api_key` */
  byKey(req: IncomingMessage, isModelCall?: boolean): Promise<Principal>;
  /**
   * For requests below the dashboard's path: the Authorization header counts first, then the host's session.
   * @throws GatewayError the same, and `cross_origin_request` for a session that another site's page uses
   */
  byKeyOrSession(req: IncomingMessage): Promise<Authenticated>;
}

/**
 * Whether a page of the same origin made a request, as far as browsers tell. They say it themselves in
 * `sec-fetch-site` (Fetch Metadata, W3C). A browser that does not is judged by `origin`, which every browser sends with
 * whatever is neither GET nor HEAD. An address typed in by hand counts for GET and HEAD, which change nothing.
 */
export function isSameOrigin(req: Pick<IncomingMessage, 'method' | 'url' | 'headers'>): boolean {
  const { method = 'GET', headers } = req;
  const reading = method === 'GET' || method === 'HEAD';
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin' || (reading && site === 'none');
  if (headers.origin === undefined) return reading;
  return URL.canParse(headers.origin) && new URL(headers.origin).host === hostOf(req);
}

export function createAuthenticator({ byKey, bySession }: AuthenticatorDeps): Authenticator {
  const authenticator: Authenticator = {
    async byKey(req, isModelCall) {
      const principal = await byKey(req, isModelCall);
      if (principal) return principal;
      throw new GatewayError('invalid_api_key', 'This API key is not known, has expired or has been revoked');
    },

    async byKeyOrSession(req) {
      if (req.headers.authorization !== undefined) return { principal: await authenticator.byKey(req), via: 'key' };
      if (!bySession) throw new GatewayError('missing_api_key', 'Sign in with an API key');
      if (!isSameOrigin(req)) {
        throw new GatewayError('cross_origin_request', 'A session is valid only for requests of the dashboard itself');
      }
      const principal = await bySession(req);
      if (principal) return { principal, via: 'session' };
      throw new GatewayError('missing_api_key', 'No user is signed in; sign in, or use an API key');
    },
  };
  return authenticator;
}
