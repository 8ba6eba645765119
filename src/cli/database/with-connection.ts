import { type Database, openDatabase } from '../../mongo/connection/connection.ts';
import type { DatabaseSettings } from '../config/database-settings.ts';
import { locateDatabase, namingDatabase } from './database-access.ts';

const defaultPrefix = 'gateway_';
/** Warnings about connections are about those of a host. */
const silent = { info() {}, warn() {}, error() {} };

/**
 * Connects to the database of a gateway, without a gateway, and closes the connection afterwards.
 * @param use gets the connection, and what stands before the names of collections
 * @throws GatewayError `invalid_options` when no gateway runs on `dataDir`, or the database cannot be opened or
 * used with the rights of the user; it names the variable. Whatever else `use` throws
 */
export async function withConnection<T>(
  settings: DatabaseSettings,
  use: (connection: Database['connection'], prefix: string) => Promise<T>,
): Promise<T> {
  const { uri, options } = await locateDatabase(settings);
  const { connection, close } = await openDatabase(uri, silent).catch((error) => {
    throw namingDatabase(error, settings);
  });
  try {
    return await use(connection, options.collectionPrefix ?? defaultPrefix);
  } catch (error) {
    throw namingDatabase(error, settings);
  } finally {
    await close();
  }
}
