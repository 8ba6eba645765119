import { GatewayError } from '../../errors.ts';
import type { ApiKey, ApiKeyInput, ModelGateway } from '../../index.ts';
import type { Schemas } from '../client/api.ts';
import { type Environment, readDatabaseSettings } from '../config/config.ts';

async function beside<T>(env: Environment, use: (gateway: ModelGateway) => Promise<T>): Promise<T> {
  // the whole gateway is loaded where it is needed, and not for commands that speak to one
  const { besideGateway } = await import('./database-access.ts');
  return besideGateway(readDatabaseSettings(env), use);
}

/** A key of the database as the API answers it. */
function toJson({ id, name, scopes, models, budgets, ...times }: ApiKey): Schemas['ApiKey'] {
  return {
    id,
    name,
    scopes: [...scopes],
    models: models && [...models],
    budgets: budgets.map(({ resetsAt, ...budget }) => ({ ...budget, resets_at: resetsAt?.toISOString() ?? null })),
    created_at: times.createdAt.toISOString(),
    expires_at: times.expiresAt?.toISOString() ?? null,
    last_used_at: times.lastUsedAt?.toISOString() ?? null,
    revoked_at: times.revokedAt?.toISOString() ?? null,
  };
}

/** Creates a key for any account, directly in the database. */
export async function createStoredKey(env: Environment, input: ApiKeyInput): Promise<Schemas['NewApiKey']> {
  const { key, ...created } = await beside(env, ({ keys }) => keys.create(input));
  const { last_used_at: _, revoked_at: __, ...fields } = toJson({ ...created, lastUsedAt: null, revokedAt: null });
  return { ...fields, key };
}

/** Every key of an account, oldest first. */
export async function listStoredKeys(env: Environment, userId: string): Promise<Schemas['ApiKeyList']> {
  return beside(env, async ({ keys }) => {
    const data: Schemas['ApiKey'][] = [];
    for (;;) {
      const after = data.at(-1)?.id;
      const page = await keys.list(userId, after === undefined ? {} : { after });
      data.push(...page.keys.map(toJson));
      if (!page.hasMore) return { data, has_more: false };
    }
  });
}

/** @throws GatewayError `not_found` where the account has no key with this id; `invalid_value` */
export async function updateStoredKey(
  env: Environment,
  id: string,
  userId: string,
  budgets: readonly Schemas['Budget'][],
): Promise<Schemas['ApiKey']> {
  const updated = await beside(env, ({ keys }) => keys.update(id, { budgets }, userId));
  if (!updated) throw new GatewayError('not_found', `${userId} has no key ${id}`, { param: 'id' });
  return toJson(updated);
}

/** @throws GatewayError `not_found` where the account has no active key with this id */
export async function revokeStoredKey(env: Environment, id: string, userId: string): Promise<Schemas['ApiKeyDeleted']> {
  const revoked = await beside(env, ({ keys }) => keys.revoke(id, userId));
  if (!revoked) throw new GatewayError('not_found', `${userId} has no active key ${id}`, { param: 'id' });
  return { id, deleted: true };
}
