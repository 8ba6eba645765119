import { createModelGateway, type ModelGateway } from '../../index.ts';
import { primaryOf } from '../../mongo/schema/prepare-schema.ts';
import { retryUntilAvailable } from '../../mongo/schema/retry-until-available.ts';
import { readSchemaRecord } from '../../mongo/schema/schema-record.ts';
import type { DatabaseSettings } from '../config/database-settings.ts';
import { loadSecretKeys, newSecretKey } from '../config/secret-key.ts';
import { locateDatabase, namingDatabase } from './database-access.ts';
import { withConnection } from './with-connection.ts';

/** Without SECRET_KEYS, a temporary key is enough for a MongoDB of your own that has no webhooks. */
async function findSecretKeys({ dataDir, mongodbUri, secretKeys }: DatabaseSettings): Promise<readonly string[]> {
  if (secretKeys) return secretKeys;
  return mongodbUri ? [newSecretKey()] : loadSecretKeys(dataDir);
}

/** Whether a gateway or `migrate` has prepared the database. */
async function isPrepared(settings: DatabaseSettings): Promise<boolean> {
  return withConnection(settings, async (connection, prefix) => {
    const read = () => readSchemaRecord(primaryOf(connection), prefix);
    return (await retryUntilAvailable(read, { connection, logger: { info() {} } })) !== null;
  });
}

/**
 * Uses the database of a gateway that runs in another process, and closes it afterwards. Builds indexes only in a database that was
 * never prepared: a command of a newer package must not migrate one that is in use.
 * @throws GatewayError `invalid_options` when there is no such gateway, its database cannot be opened or used, or an older version
 * has prepared it; and whatever else `use` throws
 */
export async function besideGateway<T>(
  settings: DatabaseSettings,
  use: (gateway: ModelGateway) => Promise<T>,
): Promise<T> {
  const { uri, options } = await locateDatabase(settings);
  const secretKeys = await findSecretKeys(settings);
  const indexes = (await isPrepared(settings)) ? ({ indexes: 'check' } as const) : {};
  const gateway = await createModelGateway({ mongo: uri, secretKeys, ...options, ...indexes }).catch((error) => {
    throw namingDatabase(error, settings);
  });
  try {
    return await use(gateway);
  } catch (error) {
    throw namingDatabase(error, settings);
  } finally {
    await gateway.close();
  }
}
