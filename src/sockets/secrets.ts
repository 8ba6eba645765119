import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../errors.ts';
import { bearerToken } from '../http/authentication.ts';
import { isId } from '../ids.ts';
import type { Principal } from '../options/principal.ts';
import { failure } from '../proxy/failure.ts';
import { checkModelName } from '../proxy/model-body.ts';
import { type ModelOwners, routeModel, type Upstream } from '../proxy/upstream.ts';
import type { StoredSecret, StoredSecrets } from '../stored/secrets.ts';

/** A secret that a client has shown. */
export interface ShownSecret extends StoredSecret {
  readonly text: string;
}

export interface RealtimeSecretsDeps {
  readonly stored: StoredSecrets;
  /** Who the bearer of one of the gateway's keys is; `null` if there is no such key, or it has expired or was revoked. */
  readonly principalOfKey: (id: string) => Promise<Principal | null>;
}

/** How the secrets begin that upstreams make; the gateway's own keys begin otherwise. */
const secretStart = 'ek_';

function noSecret(): GatewayError {
  const message = 'This ephemeral secret is good no longer, or the API key that made it is not; make another one';
  return new GatewayError('invalid_api_key', message);
}

/**
 * The ephemeral secrets that upstreams make for the clients of an account. Each acts for the account and the key that had it made, in realtime
 * sessions and calls alone, at the upstream that made it.
 */
export class RealtimeSecrets {
  readonly #deps: RealtimeSecretsDeps;
  /** The secrets of those that came with one, so that nobody who is shown a principal is shown a secret. */
  readonly #shown = new WeakMap<Principal, ShownSecret>();

  constructor(deps: RealtimeSecretsDeps) {
    this.#deps = deps;
  }

  /**
   * Remembers whose a new secret is, before its client gets it. One of another form is not remembered: it serves at its upstream alone.
   * @throws GatewayError `upstream_invalid_response` where another account or key has it
   */
  async add(text: string, { principal, ...secret }: StoredSecret): Promise<void> {
    if (!text.startsWith(secretStart)) return;
    const { userId, keyId, models, budgets, accountBudgets, expiresAt } = principal;
    const owner: Principal = {
      ...{ userId, scopes: ['models'] },
      ...(keyId !== undefined && { keyId }),
      ...(models && { models }),
      ...(budgets && { budgets }),
      ...(accountBudgets && { accountBudgets }),
      ...(expiresAt && { expiresAt }),
    };
    if (!(await this.#deps.stored.add(text, { ...secret, principal: owner }))) {
      throw failure('upstream_invalid_response');
    }
  }

  /** The secret that a request comes with; `undefined` where it has none that is known. @throws GatewayError `database_unavailable` */
  async find(req: Pick<IncomingMessage, 'headers' | 'rawHeaders'>): Promise<ShownSecret | undefined> {
    if (!req.headers.authorization?.slice('Bearer '.length).trimStart().startsWith(secretStart)) return undefined;
    const text = bearerToken(req);
    const secret = await this.#deps.stored.find(text);
    return secret && { ...secret, text };
  }

  /**
   * Who shows a secret: a key of the gateway's own as it is now, any other principal as it was.
   * @throws GatewayError `invalid_api_key` where the key has expired or was revoked
   */
  async authenticate(secret: ShownSecret): Promise<Principal> {
    const { keyId } = secret.principal;
    const isOwnKey = keyId !== undefined && isId('key', keyId);
    const current = isOwnKey ? await this.#deps.principalOfKey(keyId) : secret.principal;
    if (!current || (current.expiresAt && current.expiresAt.getTime() <= Date.now())) throw noSecret();
    const principal = { ...current };
    this.#shown.set(principal, secret);
    return principal;
  }

  /** The secret with which a principal has come; `undefined` for one with a key. */
  of(principal: Principal): ShownSecret | undefined {
    return this.#shown.get(principal);
  }
}

/**
 * The model of a session that a secret opens: the secret's own, which its upstream takes whatever else is named.
 * @param model the one that the request names
 * @throws GatewayError `invalid_value` for another one
 */
export function modelWith(secret: ShownSecret | undefined, model: string | undefined): string | undefined {
  checkModelName(model);
  if (!secret || secret.model === null || model === secret.model) return model ?? secret?.model ?? undefined;
  if (model === undefined) return secret.model;
  const message = `model: must be '${secret.model}', the model that this ephemeral secret is for`;
  throw new GatewayError('invalid_value', message, { param: 'model' });
}

/**
 * The upstream that has made a secret, with that in the place of the gateway's own key: so it takes the session that the secret is for.
 * @throws GatewayError `invalid_api_key` where the upstream is not configured any more
 */
function upstreamWith(secret: ShownSecret, upstreams: readonly Upstream[]): Upstream {
  const upstream = upstreams.find(({ name }) => name === secret.upstream);
  if (!upstream) throw noSecret();
  const { 'api-key': _, ...fixed } = upstream.headers.fixed;
  const headers = { ...upstream.headers, fixed: { ...fixed, authorization: `Bearer ${secret.text}` } };
  return { ...upstream, headers };
}

/**
 * The upstreams that a session goes to, in turn: with a secret the one that made it. A secret that is for no model of its own opens only what an upstream
 * serves to the account.
 * @param model the one of the session
 * @throws GatewayError `model_not_found`, `invalid_api_key`, `database_unavailable`
 */
export async function routeSession(
  secret: ShownSecret | undefined,
  upstreams: readonly Upstream[],
  model: string | undefined,
  userId: string,
  owners: ModelOwners,
): Promise<readonly [Upstream, ...Upstream[]]> {
  if (!secret) return routeModel(upstreams, model, userId, owners);
  const maker = upstreamWith(secret, upstreams);
  return secret.model === null ? routeModel([maker], model, userId, owners) : [maker];
}

/** Says that a secret has expired where its upstream refuses it: it is no key of the gateway's. @throws GatewayError `invalid_api_key` */
export function requireGoodSecret(secret: ShownSecret | undefined, status: number): void {
  if (secret && (status === 401 || status === 403)) throw noSecret();
}
