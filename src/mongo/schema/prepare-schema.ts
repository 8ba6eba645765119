import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection, mongo } from 'mongoose';
import { GatewayError, refuse } from '../../errors.ts';
import type { Logger, ResolvedOptions } from '../../options/options.ts';
import { readVersion } from '../../version.ts';
import { databaseOf, durable } from '../collection.ts';
import { isOfClosedClient } from '../connection/open-failure.ts';
import { createCachedReading } from '../probes/probes.ts';
import { isUnavailable } from '../unavailable.ts';
import { isDuplicateKey } from '../writes.ts';
import {
  buildIndexes,
  type CollectionIndexes,
  type FoundIndex,
  findIndexes,
  indexName,
  isAltered,
  isLacking,
} from './indexes.ts';

/** What an operator runs to prepare the database. */
export const howToMigrate = 'npx express-model-gateway migrate';
/** Error messages name no more than so many indexes. */
const longestList = 20;

export interface SchemaDeps {
  readonly connection: Connection;
  /** What stands before the names of collections. */
  readonly prefix: string;
  readonly needed: readonly CollectionIndexes[];
}

/**
 * Builds every index, and records that this version has done so.
 * @returns those that expire documents after another time, and stay so
 */
export async function buildSchema({ connection, prefix, needed }: SchemaDeps): Promise<readonly FoundIndex[]> {
  const db = databaseOf(connection);
  const altered = await buildIndexes(db, needed);
  await writeSchemaRecord(db, prefix);
  return altered;
}

/** The indexes of collections whose loss loses something. */
function findImportant({ connection, needed }: Omit<SchemaDeps, 'prefix'>): Promise<FoundIndex[]> {
  return findIndexes(
    databaseOf(connection),
    needed.filter(({ isDisposable }) => !isDisposable),
  );
}

/**
 * @returns the indexes that expire documents after another time
 * @throws GatewayError `invalid_options` that names what is missing, and the command that builds it
 */
async function requireSchema(
  { connection, needed }: SchemaDeps,
  record: SchemaRecord | null,
): Promise<readonly FoundIndex[]> {
  const foundIndexes = await findImportant({ connection, needed });
  const lacking = foundIndexes.filter(isLacking);
  if (lacking.length === 0 && !needsMigration(record)) return foundIndexes.filter(isAltered);
  const names = lacking.map((index) => `${indexName(index)} (${index.state})`);
  const more = names.length > longestList ? ` and ${names.length - longestList} more` : '';
  const reason =
    lacking.length > 0
      ? `these indexes are not as this version needs them: ${names.slice(0, longestList).join(', ')}${more}`
      : `the database was prepared for schema version ${record?.version ?? 0}, and this one needs ${schemaVersion}`;
  const remedy = `run \`${howToMigrate}\` with MONGODB_URI and COLLECTION_PREFIX, then start again`;
  refuse('invalid_options', 'indexes', `${reason}; ${remedy}`);
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
    const record = await readSchemaRecord(databaseOf(connection), prefix);
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
export function createIndexCheck(deps: SchemaDeps) {
  const readLacking = async () => (await findImportant(deps)).filter(isLacking);
  return createCachedReading(readLacking, (lacking) => lacking.length === 0);
}

/** What this version of the package writes. It grows with every change of collections, fields or indexes. */
export const schemaVersion = 1;
/** The oldest schema version whose package may still run beside this one, as in a rolling upgrade. */
const compatibleFrom = 1;

/** What the newest version that has prepared this database left for others. */
export interface SchemaRecord {
  readonly version: number;
  /** Packages with a lower schema version must not use the database any more. */
  readonly compatibleFrom: number;
  /** The version of the package that wrote the record. */
  readonly packageVersion: string;
  /** By the clock of the process that wrote it. */
  readonly writtenAt: Date;
}

type StoredRecord = SchemaRecord & { readonly _id: 'schema' };

export function schemaCollection(prefix: string): string {
  return `${prefix}schema`;
}

function collectionOf(db: mongo.Db, prefix: string): mongo.Collection<StoredRecord> {
  const writeConcern = { w: durable.w, journal: durable.j };
  return db.collection<StoredRecord>(schemaCollection(prefix), { writeConcern });
}

/** Resolves to `null` where no version with such a record has prepared the database. */
export async function readSchemaRecord(db: mongo.Db, prefix: string): Promise<SchemaRecord | null> {
  return collectionOf(db, prefix).findOne({ _id: 'schema' }, { projection: { _id: 0 } });
}

/** Whether the database was last prepared for an older schema version, or never. */
export function needsMigration(record: SchemaRecord | null): boolean {
  return (record?.version ?? 0) < schemaVersion;
}

/** Whether this version may use a database that was prepared so. */
export function isCompatible(record: SchemaRecord | null): boolean {
  return record === null || record.compatibleFrom <= schemaVersion;
}

/** @throws GatewayError `invalid_options` if this version must not use the database any more */
export function requireCompatible(record: SchemaRecord | null): void {
  if (record === null || isCompatible(record)) return;
  refuse(
    'invalid_options',
    'mongo',
    `express-model-gateway ${record.packageVersion} has prepared this database (schema version ${record.version}), and ` +
      `versions with a schema version below ${record.compatibleFrom} must not use it; this is ${readVersion()} with schema ` +
      `version ${schemaVersion}: run ${record.packageVersion} or a newer one`,
  );
}

/** Records that this version has prepared the database, unless a newer one has. */
async function writeSchemaRecord(db: mongo.Db, prefix: string): Promise<void> {
  const record = { version: schemaVersion, compatibleFrom, packageVersion: readVersion(), writtenAt: new Date() };
  const older = { _id: 'schema' as const, version: { $lt: schemaVersion } };
  await collectionOf(db, prefix)
    .updateOne(older, { $set: record }, { upsert: true })
    .catch((error: unknown) => {
      // another process has written it meanwhile, or a newer version before
      if (!isDuplicateKey(error)) throw error;
    });
}

/** How long to wait for a primary: several elections. Milliseconds. */
const longestRetry = 20_000;
/** The wait between tries. Milliseconds. */
const retryDelay = 200;

interface RetryDeps {
  readonly connection: Connection;
  readonly logger: Pick<Logger, 'info'>;
  /** How long to wait for a primary. Milliseconds. @default 20_000 */
  readonly availableWithin?: number;
}

/** Whether only this connection was silent for too long: the database answers on another one. */
async function isStillBuilding(error: unknown, connection: Connection): Promise<boolean> {
  if ((error as Error).name !== 'MongoNetworkTimeoutError') return false;
  try {
    await databaseOf(connection, { name: 'admin' }).command({ ping: 1 });
    return true;
  } catch (pingError) {
    if (isUnavailable(pingError)) return false;
    throw pingError;
  }
}

/**
 * Prepares the database and, where that fails because the database is silent or has no primary, tries again. The index of a
 * large collection takes longer than a connection may be silent: the database continues a build whose connection has closed,
 * and the repeated command waits for it.
 * @param prepare may be called again
 * @throws GatewayError `invalid_options` if the database has had no primary, or not answered, for 20 s; any other rejection
 * of `prepare` as it is
 */
export async function retryUntilAvailable<T>(
  prepare: () => Promise<T>,
  { connection, logger, availableWithin = longestRetry }: RetryDeps,
): Promise<T> {
  let isSlow = false;
  let unavailableSince: number | undefined;
  for (;;) {
    try {
      return await prepare();
    } catch (error) {
      if (!isUnavailable(error) || isOfClosedClient(error)) throw error;
      if (await isStillBuilding(error, connection)) {
        if (!isSlow) logger.info('indexes are being built; waiting until they are there');
        isSlow = true;
        unavailableSince = undefined;
        continue;
      }
      unavailableSince ??= performance.now();
      if (performance.now() - unavailableSince > availableWithin) {
        const message = 'mongo: the database has no primary that takes writes; check the replica set, and try again';
        throw new GatewayError('invalid_options', message, { param: 'mongo', cause: error });
      }
      await sleep(retryDelay);
    }
  }
}
