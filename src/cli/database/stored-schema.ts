import type { Migration } from '../../migrate.ts';
import { type Environment, readDatabaseSettings } from '../config/config.ts';
import { locateDatabase } from './database-access.ts';

const prefixByDefault = 'gateway_';
const silent = { info() {}, warn() {}, error() {} };

/** Prepares the database of a gateway for this version, or with `plan` only tells what there is to do. */
export async function migrateStored(env: Environment, plan: boolean): Promise<Migration> {
  const { uri, options } = await locateDatabase(readDatabaseSettings(env));
  // loaded where they are needed, and not for commands that speak to a gateway
  const [{ openDatabase }, { migrate }] = await Promise.all([
    import('../../mongo/connection/connection.ts'),
    import('../../migrate.ts'),
  ]);
  const { connection, close } = await openDatabase(uri, silent);
  try {
    return await migrate(connection, options.collectionPrefix ?? prefixByDefault, plan);
  } finally {
    await close();
  }
}
