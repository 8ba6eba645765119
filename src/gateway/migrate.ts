import type { Connection } from 'mongoose';
import { databaseOf } from '../mongo/collection.ts';
import { findIndexes, indexName, isLacking } from '../mongo/schema/indexes.ts';
import {
  buildSchema,
  readSchemaRecord,
  requireCompatible,
  retryUntilAvailable,
  schemaVersion,
} from '../mongo/schema/prepare-schema.ts';
import type { Logger } from '../options/options.ts';
import { readVersion } from '../version.ts';
import { createModels, everyIndex } from './collections.ts';

/**
 * What {@link migrate} would do.
 * @returns `missing`: the indexes to be built, such as `gateway_events.idempotency`, or `gateway_payments` for a collection without any;
 * `from` and `to`: the schema version that the database was prepared for, `null` if it never was, and the one afterwards
 * @throws GatewayError `invalid_options` if a newer version has made the database one that this version must not use
 */
export async function planMigration(connection: Connection, prefix: string) {
  const db = databaseOf(connection);
  const record = await readSchemaRecord(db, prefix);
  requireCompatible(record);
  const needed = everyIndex(createModels(connection, prefix), prefix);
  return {
    missing: (await findIndexes(db, needed)).filter(isLacking).map(indexName),
    from: record?.version ?? null,
    to: Math.max(record?.version ?? 0, schemaVersion),
    packageVersion: readVersion(),
  };
}

/**
 * Prepares a database for this version, however long that takes: builds the indexes that are missing, and records the schema
 * version. It removes no data, so that compatible older versions can still run beside it. May be run again.
 * @param logger logs when indexes take long
 * @returns `built`: the indexes that were missing; the rest as {@link planMigration}
 * @throws GatewayError `invalid_options` as {@link planMigration}, if an index has other fields or options than this version
 * needs, or if the database has no primary for 20 s
 */
export async function migrate(connection: Connection, prefix: string, logger: Pick<Logger, 'info'>) {
  const deps = { connection, logger };
  const { missing, ...versions } = await retryUntilAvailable(() => planMigration(connection, prefix), deps);
  const needed = everyIndex(createModels(connection, prefix), prefix);
  await retryUntilAvailable(() => buildSchema({ connection, prefix, needed }), deps);
  return { built: missing, ...versions };
}
