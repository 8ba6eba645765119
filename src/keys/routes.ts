import type { components } from '../api.d.ts';
import { GatewayError } from '../errors.ts';
import { accountScopes, type Call, type OperationTable, type Principal } from '../http/operation.ts';
import type { ApiKey, NewApiKey } from './api-key.ts';
import { apiKeyNotFound, type KeyService } from './service.ts';

type Schemas = components['schemas'];
type Wanted = Schemas['ApiKeyCreate'];

function toBody({ id, name, scopes, models, createdAt, expiresAt }: Omit<ApiKey, 'revokedAt' | 'lastUsedAt'>) {
  return {
    id,
    name,
    scopes: [...scopes],
    models: models && [...models],
    created_at: createdAt.toISOString(),
    expires_at: expiresAt?.toISOString() ?? null,
  };
}

function toNewBody(made: NewApiKey): Schemas['NewApiKey'] {
  return { ...toBody(made), key: made.key };
}

function toListed(key: ApiKey): Schemas['ApiKey'] {
  return {
    ...toBody(key),
    last_used_at: key.lastUsedAt?.toISOString() ?? null,
    revoked_at: key.revokedAt?.toISOString() ?? null,
  };
}

/**
 * A key cannot make one that may do more, call more or live longer than itself.
 * @throws GatewayError `insufficient_scope` naming the scope, `model_not_allowed`, or `invalid_value` for `expires_at`
 */
function checkGrant(by: Principal, { scopes, models, expires_at }: Wanted): void {
  const held = by.scopes ?? accountScopes;
  const missing = scopes.findIndex((scope) => !held.includes(scope));
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
}

/** The operations on an account's API keys. */
export function keyOperations(service: KeyService): OperationTable {
  return {
    createApiKey: {
      async handle({ principal, body }: Call<Wanted>) {
        checkGrant(principal, body);
        const made = await service.create({
          userId: principal.userId,
          name: body.name,
          scopes: body.scopes,
          ...(body.models && { models: body.models }),
          ...(body.expires_at !== undefined && { expiresAt: new Date(body.expires_at) }),
        });
        return { status: 201, body: toNewBody(made), headers: { 'cache-control': 'no-store' } };
      },
    },
    listApiKeys: {
      async handle({ principal, query: { limit, after } }) {
        const { keys, hasMore } = await service.list(principal.userId, {
          ...(limit !== undefined && { limit: Number(limit) }),
          ...(after !== undefined && { after: String(after) }),
        });
        return { status: 200, body: { data: keys.map(toListed), has_more: hasMore } satisfies Schemas['ApiKeyList'] };
      },
    },
    deleteApiKey: {
      async handle({ principal, params: { id = '' } }) {
        const { userId } = principal;
        // one revoked already is told the same, so that the request can be repeated
        const revoked = (await service.revoke(id, userId)) || (await service.get(id))?.userId === userId;
        if (!revoked) throw apiKeyNotFound(id);
        return { status: 200, body: { id, deleted: true } satisfies Schemas['ApiKeyDeleted'] };
      },
    },
  };
}
