import type { components, operations } from '../api.d.ts';
import { GatewayError } from '../errors.ts';
import { requireNoBudgets, toBudgetBody } from '../http/budget-body.ts';
import { toTime } from '../http/incoming-time.ts';
import type { OperationTable, ReplyOf } from '../http/operation.ts';
import type { Page } from '../mongo/list-page.ts';
import { accountScopes, type Principal, type Scope } from '../options/principal.ts';
import type { ApiKey } from './api-key.ts';
import { apiKeyNotFound, type KeyService } from './service.ts';

type Schemas = components['schemas'];
type KeyCreation = Schemas['ApiKeyCreate'];

function toBody({ id, name, scopes, models, budgets, createdAt, expiresAt }: Omit<ApiKey, 'revokedAt' | 'lastUsedAt'>) {
  return {
    id,
    name,
    scopes: [...scopes],
    models: models && [...models],
    budgets: budgets.map(toBudgetBody),
    created_at: createdAt.toISOString(),
    expires_at: expiresAt?.toISOString() ?? null,
  };
}

/** An API key, as the API lists it. */
export function toListed(key: ApiKey): Schemas['ApiKey'] {
  return {
    ...toBody(key),
    last_used_at: key.lastUsedAt?.toISOString() ?? null,
    revoked_at: key.revokedAt?.toISOString() ?? null,
  };
}

/**
 * A key cannot create one that has more scopes, may call more models or expires later than itself.
 * @param grantable the scopes that it may grant
 * @throws GatewayError `insufficient_scope` naming the scope, `model_not_allowed`, `budget_not_allowed`, or `invalid_value` for `expires_at`
 */
function checkGrant(by: Principal, grantable: readonly Scope[], creation: KeyCreation): void {
  const { scopes = accountScopes, models, expires_at } = creation;
  const missing = scopes.findIndex((scope) => !grantable.includes(scope));
  if (missing !== -1) {
    const param = `scopes[${missing}]`;
    const message = `${param}: only a key with the scope ${scopes[missing]} can grant it`;
    throw new GatewayError('insufficient_scope', message, { param });
  }
  const { models: callable, expiresAt } = by;
  if (callable && !models?.every((model) => callable.includes(model))) {
    const message = `models: must be some of those that your own key may call: ${callable.join(', ')}`;
    throw new GatewayError('model_not_allowed', message, { param: 'models' });
  }
  if (expiresAt && !(expires_at !== undefined && Date.parse(expires_at) <= expiresAt.getTime())) {
    const message = `expires_at: must be no later than your own key's, ${expiresAt.toISOString()}`;
    throw new GatewayError('invalid_value', message, { param: 'expires_at' });
  }
  // a key with the scope admin could make one with the scope models
  if (scopes.includes('models') || scopes.includes('admin')) requireNoBudgets(by, 'scopes');
}

/**
 * A key cannot revoke or change one that may do more, or call more, than itself: one that leaked would lock its owner out.
 * @throws GatewayError `insufficient_scope` or `model_not_allowed`
 */
function checkControl({ scopes = accountScopes, models }: Principal, target: ApiKey): void {
  const missing = target.scopes.filter((scope) => !scopes.includes(scope));
  if (missing.length > 0) {
    const message = `The key ${target.id} may do more than your own; use a key that has ${missing.join(', ')} too`;
    throw new GatewayError('insufficient_scope', message, { param: 'id' });
  }
  if (models && !target.models?.every((model) => models.includes(model))) {
    const message = `The key ${target.id} may call models that your own may not; use a key that may call them too`;
    throw new GatewayError('model_not_allowed', message, { param: 'id' });
  }
}

/** What the operations do with keys of an account, and what they answer. */
function createKeyActions(service: KeyService) {
  async function create(
    userId: string,
    { name, scopes, models, budgets, expires_at }: KeyCreation,
  ): Promise<ReplyOf<operations['createApiKey']>> {
    const created = await service.create({
      userId,
      name,
      ...(scopes && { scopes }),
      ...(models && { models }),
      ...(budgets && { budgets }),
      ...(expires_at !== undefined && { expiresAt: toTime(expires_at, 'expires_at') }),
    });
    return { status: 201, body: { ...toBody(created), key: created.key } };
  }

  async function list(userId: string, page: Page): Promise<ReplyOf<operations['listApiKeys']>> {
    const { keys, hasMore } = await service.list(userId, page);
    return { status: 200, body: { data: keys.map(toListed), has_more: hasMore } };
  }

  async function update(
    userId: string,
    id: string,
    patch: Schemas['ApiKeyUpdate'],
  ): Promise<ReplyOf<operations['updateApiKey']>> {
    const key = await service.update(id, patch, userId);
    if (!key) throw apiKeyNotFound(id);
    return { status: 200, body: toListed(key) };
  }

  /** A key of the caller's account that the caller may change. */
  async function requireControlled(principal: Principal, id: string): Promise<void> {
    const target = await service.get(id);
    if (target?.userId !== principal.userId) throw apiKeyNotFound(id);
    checkControl(principal, target);
  }

  async function remove(userId: string, id: string): Promise<ReplyOf<operations['deleteApiKey']>> {
    // a revoked key gets the same answer, so that the request can be repeated
    const revoked = (await service.revoke(id, userId)) || (await service.get(id))?.userId === userId;
    if (!revoked) throw apiKeyNotFound(id);
    return { status: 200, body: { id, deleted: true } };
  }

  return { create, list, update, requireControlled, remove };
}

/** The operations on API keys, of the caller's account, or with the scope `admin` of any account. */
export function keyOperations(service: KeyService) {
  const { create, list, update, requireControlled, remove } = createKeyActions(service);

  return {
    createApiKey: {
      async handle({ principal, body }) {
        checkGrant(principal, principal.scopes ?? accountScopes, body);
        return create(principal.userId, body);
      },
    },
    listApiKeys: { handle: ({ principal, query }) => list(principal.userId, query) },
    updateApiKey: {
      async handle({ principal, params: { id }, body }) {
        requireNoBudgets(principal);
        await requireControlled(principal, id);
        return update(principal.userId, id, body);
      },
    },
    deleteApiKey: {
      async handle({ principal, params: { id } }) {
        await requireControlled(principal, id);
        return remove(principal.userId, id);
      },
    },
    createUserApiKey: {
      async handle({ principal, params: { user_id }, body }) {
        // a caller that acts for an account may grant what its owner has
        checkGrant(principal, [...accountScopes, ...(principal.scopes ?? [])], body);
        return create(user_id, body);
      },
    },
    listUserApiKeys: { handle: ({ params: { user_id }, query }) => list(user_id, query) },
    updateUserApiKey: {
      async handle({ principal, params: { user_id, id }, body }) {
        requireNoBudgets(principal);
        return update(user_id, id, body);
      },
    },
    deleteUserApiKey: { handle: ({ params: { user_id, id } }) => remove(user_id, id) },
  } satisfies Partial<OperationTable>;
}
