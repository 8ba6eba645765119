import { type Migration, type MigrationPlan, migrate, planMigration } from '../../gateway/migrate.ts';
import { readDatabaseSettings } from '../config/database-settings.ts';
import type { Environment } from '../config/environment.ts';
import { withConnection } from './with-connection.ts';

/** Tells what there is to do to prepare the database of a gateway for this version. */
export async function planStoredMigration(env: Environment): Promise<MigrationPlan> {
  return withConnection(readDatabaseSettings(env), planMigration);
}

/** Prepares the database of a gateway for this version. @param print gets a line when that takes long */
export async function migrateStored(env: Environment, print: (line: string) => void): Promise<Migration> {
  const logger = { info: print };
  return withConnection(readDatabaseSettings(env), (connection, prefix) => migrate(connection, prefix, logger));
}
