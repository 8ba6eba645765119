import type { IncomingMessage } from 'node:http';
import { isDate } from 'node:util/types';
import { GatewayError } from '../errors.ts';
import { isStorableId } from '../ids.ts';
import { toBudgets } from '../options/budgets.ts';
import { accountScopes, type Principal, type Scope, scopes } from '../options/principal.ts';
import { hostOf, timesSent } from './request.ts';

/** Who makes a request, and what shows it. */
interface Authenticated {
  readonly principal: Principal;
  readonly via: 'key' | 'session';
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

/**
 * @param byKey reads the credentials in the Authorization header
 * @param bySession reads the host's own session. @default there are no sessions
 */
export function createAuthenticator({
  byKey,
  bySession,
}: {
  readonly byKey: Authenticate;
  readonly bySession?: Authenticate | undefined;
}): Authenticator {
  const authenticator: Authenticator = {
    async byKey(req, isModelCall) {
      const principal = await byKey(req, isModelCall);
      if (principal) return principal;
      throw new GatewayError(
        'invalid_api_key',
        sendsKey(req)
          ? 'This API key is not known, has expired or has been revoked'
          : 'No API key was sent, and nothing else that says whose request this is',
      );
    },

    async byKeyOrSession(req) {
      if (sendsKey(req)) return { principal: await authenticator.byKey(req), via: 'key' };
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

/** The token68 of RFC 9110, section 11.2, after the scheme, which has no case. */
const bearer = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i;
const noBearer = /^(bearer)? *$/i;
/** The same without a scheme. */
const token68 = /^[A-Za-z0-9\-._~+/]+=*$/;

/** Whether a request has a header for a key. */
export function sendsKey({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  return headers.authorization !== undefined || headers['x-api-key'] !== undefined;
}

/**
 * The token of `Authorization: Bearer <token>` (RFC 6750, section 2.1).
 * @throws GatewayError `missing_api_key` when there is none; `invalid_authorization` when there are two headers,
 * or one that is no bearer token
 */
export function bearerToken(req: Pick<IncomingMessage, 'headers' | 'rawHeaders'>): string {
  const header = req.headers.authorization;
  if (header === undefined || noBearer.test(header)) {
    throw new GatewayError('missing_api_key', 'No API key was sent; send it as Authorization: Bearer <API_KEY>');
  }
  const token = bearer.exec(header)?.[1];
  if (token === undefined || timesSent('authorization', req.rawHeaders) > 1) {
    throw new GatewayError('invalid_authorization', 'The Authorization header must be sent once, as Bearer <API_KEY>');
  }
  return token;
}

/**
 * The key of a request: its bearer token, or without one `x-api-key`, as Anthropic's clients send it.
 * @throws GatewayError as {@link bearerToken} does
 */
function keyOf(req: Pick<IncomingMessage, 'headers' | 'rawHeaders'>): string {
  const { authorization = '', 'x-api-key': key = '' } = req.headers;
  if (key === '' || !noBearer.test(authorization)) return bearerToken(req);
  // of two headers, Node makes one with a comma
  if (typeof key === 'string' && token68.test(key)) return key;
  throw new GatewayError('invalid_authorization', 'The header x-api-key must be sent once, as <API_KEY>');
}

/** Reads the credentials of a request by its key. */
export function byApiKey(
  authenticate: (token: string, isModelCall: boolean) => Promise<Principal | null>,
): Authenticate {
  return (req, isModelCall = false) => authenticate(keyOf(req), isModelCall);
}

/** Says who makes a request; `null` if that is not known. */
export type Authenticate = (
  req: IncomingMessage,
  isModelCall?: boolean,
) => Principal | null | Promise<Principal | null>;

function areBudgets(list: unknown): boolean {
  try {
    return toBudgets(list).length >= 0;
  } catch {
    return false;
  }
}

const budgetRule = [
  (list: unknown) => list === undefined || areBudgets(list),
  "must be a list of budgets such as { period: 'month', tokens: 1_000_000 }, or left out",
] as const;

/** What each field of a principal must be, in code and in words. */
const rules: {
  readonly [Name in keyof Required<Principal>]: readonly [is: (value: unknown) => boolean, must: string];
} = {
  userId: [
    isStorableId,
    'must be a string of 1 to 256 characters; give String(user.id), and null instead of a principal when no user is signed in',
  ],
  keyId: [(id) => id === undefined || isStorableId(id), 'must be a string of 1 to 256 characters, or left out'],
  scopes: [
    (list) => list === undefined || (Array.isArray(list) && list.every((scope) => scopes.includes(scope))),
    `must be a list of ${scopes.join(', ')}, or left out`,
  ],
  models: [
    (list) => list === undefined || (Array.isArray(list) && list.every((model) => model && typeof model === 'string')),
    "must be a list of models' names, or left out",
  ],
  budgets: budgetRule,
  accountBudgets: budgetRule,
  expiresAt: [
    (date) => date === undefined || (isDate(date) && !Number.isNaN(date.getTime())),
    'must be a valid Date, or left out',
  ],
};

/** The kind of a value, without the value itself. */
function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'this list';
  return typeof value === 'object' ? 'this object' : `this ${typeof value}`;
}

/**
 * Copies and checks the principal that a host returns.
 * @throws TypeError that names the option, the field and the fix
 */
function toPrincipal(given: unknown, option: string): Principal | null {
  if (given === null || given === undefined || given === false) return null;
  if (typeof given !== 'object') {
    throw new TypeError(
      `the option ${option} must give { userId }, or null if no user is signed in, not ${kindOf(given)}`,
    );
  }
  // what the host has cannot change the copy during the request
  const principal: Record<string, unknown> = { ...given };
  for (const [name, [is, must]] of Object.entries(rules)) {
    const value: unknown = Reflect.get(given, name);
    if (value !== undefined) principal[name] = Array.isArray(value) ? [...value] : value;
    if (is(principal[name])) continue;
    throw new TypeError(`the option ${option} gave a principal whose ${name} ${must}, not ${kindOf(principal[name])}`);
  }
  return principal as Record<string, unknown> & Principal;
}

/** Checks what a host's own function returns as a principal. */
export function checkedAuthenticate(option: string, authenticate: Authenticate): Authenticate {
  return async (req) => toPrincipal(await authenticate(req), option);
}

/**
 * Checks that a principal has a scope.
 * @throws GatewayError `insufficient_scope`, naming the scope, also in `www-authenticate` (RFC 6750, section 3.1)
 */
export function requireScope({ scopes = accountScopes }: Principal, scope: Scope): void {
  if (scopes.includes(scope)) return;
  throw new GatewayError('insufficient_scope', `This needs an API key with the scope ${scope}`, {
    headers: { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
  });
}
