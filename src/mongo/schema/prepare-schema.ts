import type { Connection, mongo } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import type { ResolvedOptions } from '../../options/options.ts';
import { createCachedReading } from '../probes/cached-reading.ts';
import {
  buildIndexesOf,
  type CollectionIndexes,
  type FoundIndex,
  findIndexes,
  indexName,
  isAltered,
  isLacking,
} from './indexes.ts';
import { retryUntilAvailable } from './retry-until-available.ts';
import {
  needsMigration,
  readSchemaRecord,
  requireCompatible,
  type SchemaRecord,
  schemaVersion,
  writeSchemaRecord,
} from './schema-record.ts';

/** What an operator runs to prepare the database. */
export const migrateCommand = 'npx express-model-gateway migrate';
/** Error messages name no more than so many indexes. */
const longestList = 20;

export interface SchemaDeps {
  readonly connection: Connection;
  /** What stands before the names of collections. */
  readonly prefix: string;
  readonly needed: readonly CollectionIndexes[];
}

/** The database of a connection, read from its primary. */
export function primaryOf(connection: Connection): mongo.Db {
  return connection.getClient().db(connection.name, { readPreference: 'primary' });
}

/**
 * Builds every index, and records that this version has done so.
 * @returns those that expire documents after another time, and stay so
 */
export async function buildSchema({ connection, prefix, needed }: SchemaDeps): Promise<readonly FoundIndex[]> {
  const db = primaryOf(connection);
  const altered = await Promise.all(needed.map((collection) => buildIndexesOf(db, collection)));
  await writeSchemaRecord(db, prefix);
  return altered.flat();
}

/**
 * @returns the indexes that expire documents after another time
 * @throws GatewayError `invalid_options` that names what is missing, and the command that builds it
 */
async function requireSchema(
  { connection, needed }: SchemaDeps,
  record: SchemaRecord | null,
): Promise<readonly FoundIndex[]> {
  const important = needed.filter(({ isDisposable }) => !isDisposable);
  const foundIndexes = await findIndexes(primaryOf(connection), important);
  const lacking = foundIndexes.filter(isLacking);
  if (lacking.length === 0 && !needsMigration(record)) return foundIndexes.filter(isAltered);
  const names = lacking.map((index) => `${indexName(index)} (${index.state})`);
  const more = names.length > longestList ? ` and ${names.length - longestList} more` : '';
  const reason =
    lacking.length > 0
      ? `these indexes are not as this version needs them: ${names.slice(0, longestList).join(', ')}${more}`
      : `the database was prepared for schema version ${record?.version ?? 0}, and this one needs ${schemaVersion}`;
  const message = `indexes: ${reason}; run \`${migrateCommand}\` with MONGODB_URI and COLLECTION_PREFIX, then start again`;
  throw new GatewayError('invalid_options', message, { param: 'indexes' });
}

/**
 * Prepares the database for this version as the option `indexes` says: builds the indexes, or only checks that they are there.
 * @throws GatewayError `invalid_options`: an index is missing and must not be built here, or a newer version has made the database
 * one that this version must not use
 */
export async function prepareSchema(
  deps: SchemaDeps,
  { indexes, logger }: Pick<ResolvedOptions, 'indexes' | 'logger'>,
): Promise<void> {
  const { connection, prefix } = deps;
  async function prepare() {
    const record = await readSchemaRecord(primaryOf(connection), prefix);
    requireCompatible(record);
    const altered = indexes === 'check' ? await requireSchema(deps, record) : await buildSchema(deps);
    return { record, altered };
  }
  const { record, altered } = await retryUntilAvailable(prepare, { connection, logger });
  if (altered.length > 0) {
    const names = altered.map(indexName).join(', ');
    logger.warn(`these indexes expire documents after another time than this version sets, and stay so: ${names}`);
  }
  if (record && record.version > schemaVersion) {
    const { version, packageVersion } = record;
    logger.info('a newer version has prepared the database; this one may run beside it', { version, packageVersion });
  }
}

/**
 * Makes the function that reads which indexes are missing, different or being built; it returns `undefined` where the database
 * does not say so. Of collections whose loss loses nothing, no index is needed.
 */
export function createIndexCheck({ connection, needed }: SchemaDeps) {
  const important = needed.filter(({ isDisposable }: CollectionIndexes) => !isDisposable);

  async function read(): Promise<readonly FoundIndex[]> {
    const foundIndexes = await findIndexes(primaryOf(connection), important);
    return foundIndexes.filter(isLacking);
  }

  return createCachedReading(read, (lacking) => lacking.length === 0);
}
