import { type Database, openDatabase } from '../../mongo/connection/connection.ts';
import type { DatabaseSettings } from '../config/database-settings.ts';
import { locateDatabase } from './database-access.ts';

const defaultPrefix = 'gateway_';
/** Warnings about connections are about those of a host. */
const silent = { info() {}, warn() {}, error() {} };

/**
 * Connects to the database of a gateway, without a gateway, and closes the connection afterwards.
 * @param use gets the connection, and what stands before the names of collections
 * @throws GatewayError `invalid_options` when no gateway runs on `dataDir`, or the database cannot be reached; whatever `use` throws
 */
export async function withConnection<T>(
  settings: DatabaseSettings,
  use: (connection: Database['connection'], prefix: string) => Promise<T>,
): Promise<T> {
  const { uri, options } = await locateDatabase(settings);
  const { connection, close } = await openDatabase(uri, silent);
  try {
    return await use(connection, options.collectionPrefix ?? defaultPrefix);
  } finally {
    await close();
  }
}
