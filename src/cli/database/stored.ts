import { GatewayError, refuse } from '../../errors.ts';
import type { ApiKey, ApiKeyInput, ModelGateway } from '../../index.ts';
import type { Schemas } from '../client/api.ts';
import { readDatabaseSettings } from '../config/config.ts';
import type { Environment } from '../config/environment.ts';

type Budgets = readonly Schemas['Budget'][];

/**
 * Creates a key for any account, directly in the database.
 * @throws GatewayError `invalid_value`; `invalid_options` for budgets of credits without prices
 */
export async function createStoredKey(env: Environment, input: ApiKeyInput): Promise<Schemas['ApiKeyCreated']> {
  requirePrices(env, input.budgets);
  return beside(env, async ({ keys }, toListed) => {
    const { key, ...created } = await keys.create(input);
    const { last_used_at: _, revoked_at: __, ...fields } = toListed({ ...created, lastUsedAt: null, revokedAt: null });
    return { ...fields, key };
  });
}

/** Every key of an account, oldest first. */
export async function listStoredKeys(env: Environment, userId: string): Promise<Schemas['ApiKeyList']> {
  return beside(env, async ({ keys }, toListed) => {
    const data: Schemas['ApiKey'][] = [];
    for (;;) {
      const after = data.at(-1)?.id;
      const page = await keys.list(userId, after === undefined ? {} : { after });
      data.push(...page.keys.map(toListed));
      if (!page.hasMore) return { data, has_more: false };
    }
  });
}

/** @throws GatewayError `not_found` where the account has no key with this id; `invalid_value`, `invalid_options` as above */
export async function updateStoredKey(
  env: Environment,
  id: string,
  userId: string,
  budgets: Budgets,
): Promise<Schemas['ApiKey']> {
  requirePrices(env, budgets);
  return beside(env, async ({ keys }, toListed) => {
    const updated = await keys.update(id, { budgets }, userId);
    if (!updated) throw new GatewayError('not_found', `${userId} has no key ${id}`, { param: 'id' });
    return toListed(updated);
  });
}

/** @throws GatewayError `not_found` where the account has no active key with this id */
export async function revokeStoredKey(env: Environment, id: string, userId: string): Promise<Schemas['ApiKeyDeleted']> {
  const revoked = await beside(env, ({ keys }) => keys.revoke(id, userId));
  if (!revoked) throw new GatewayError('not_found', `${userId} has no active key ${id}`, { param: 'id' });
  return { id, deleted: true };
}

/** Publishes an event directly in the database, where the workers of its gateways find it. */
export async function publishStored(
  env: Environment,
  { user_id, type, data }: Schemas['EventPublish'],
  idempotencyKey?: string,
): Promise<Schemas['PublishedEvent']> {
  const choices = idempotencyKey === undefined ? {} : { idempotencyKey };
  const { idempotencyKey: storedKey, ...published } = await beside(env, (gateway) =>
    gateway.publish({ userId: user_id, type, data }, choices),
  );
  return { ...published, user_id, data, idempotency_key: storedKey };
}

/** @param use gets the gateway, and what shows a key as the API does */
async function beside<T>(
  env: Environment,
  use: (gateway: ModelGateway, toListed: (key: ApiKey) => Schemas['ApiKey']) => Promise<T>,
): Promise<T> {
  // the whole gateway is loaded where it is needed, and not for commands that speak to one
  const [{ besideGateway }, { toListed }] = await Promise.all([
    import('./database.ts'),
    import('../../keys/routes.ts'),
  ]);
  return besideGateway(readDatabaseSettings(env), (gateway) => use(gateway, toListed));
}

/**
 * In a database of one's own, only the environment says which prices its gateway has.
 * @throws GatewayError `invalid_options` for budgets that such a gateway would never count
 */
function requirePrices(env: Environment, budgets: Budgets = []): void {
  const { mongodbUri, options } = readDatabaseSettings(env);
  if (!mongodbUri || options.credits || budgets.every(({ credits }) => credits === undefined)) return;
  const problem = 'is needed for budgets of credits, with the value that the gateway has';
  refuse('invalid_options', 'CREDIT_PRICES', problem);
}
