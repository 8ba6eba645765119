import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../errors.ts';
import type { Principal } from '../operation.ts';
import type { Authenticate } from './principal.ts';
import { isSameOrigin } from './same-origin.ts';

/** Who uses the dashboard, and by what. */
export interface SignedIn {
  readonly principal: Principal;
  readonly via: 'key' | 'session';
}

export interface SignInDeps {
  /** By the credentials in the Authorization header, as everywhere under `/v1`. */
  readonly byKey: Authenticate;
  /** By the host's own session. */
  readonly bySession: Authenticate | undefined;
}

export interface SignIn {
  /**
   * Who makes a request to the dashboard. A key goes before a session.
   * @throws GatewayError `invalid_api_key`, `missing_api_key`, or `cross_origin_request` for a session used by another site's page
   */
  signIn(req: IncomingMessage): Promise<SignedIn>;
  /** Notes that a request came by the dashboard's path, or, once it turned out to be nothing of ours, that it did not. */
  readonly cameByDashboard: Pick<WeakSet<IncomingMessage>, 'add' | 'delete'>;
  /** For the API's edge: a session counts for requests that came by the dashboard's path, and for no others. */
  readonly authenticate: Authenticate;
}

export function createSignIn({ byKey, bySession }: SignInDeps): SignIn {
  const cameByDashboard = new WeakSet<IncomingMessage>();

  async function signInByKey(req: IncomingMessage): Promise<SignedIn> {
    const principal = await byKey(req);
    if (principal) return { principal, via: 'key' };
    throw new GatewayError('invalid_api_key', 'This API key is not known, has expired or has been revoked');
  }

  async function signInBySession(req: IncomingMessage): Promise<SignedIn> {
    if (!bySession) throw new GatewayError('missing_api_key', 'Sign in with an API key');
    if (!isSameOrigin(req)) {
      throw new GatewayError('cross_origin_request', 'A session is good for requests of the dashboard itself alone');
    }
    const principal = await bySession(req);
    if (principal) return { principal, via: 'session' };
    throw new GatewayError('missing_api_key', 'Nobody is signed in; sign in, or use an API key');
  }

  const signIn: SignIn['signIn'] = (req) =>
    req.headers.authorization === undefined ? signInBySession(req) : signInByKey(req);

  return {
    signIn,
    cameByDashboard,
    authenticate: (req, isModelCall) =>
      cameByDashboard.has(req) ? signIn(req).then(({ principal }) => principal) : byKey(req, isModelCall),
  };
}
