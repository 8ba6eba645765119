import type { Connection } from 'mongoose';
import { createModels, everyIndex } from './collections.ts';
import { findIndexes, indexName, isLacking } from './mongo/schema/indexes.ts';
import { buildSchema, primaryOf } from './mongo/schema/prepare-schema.ts';
import { readSchemaRecord, requireCompatible, schemaVersion } from './mongo/schema/schema-record.ts';
import { readVersion } from './version.ts';

/** What {@link migrate} has done, or would do. */
export interface Migration {
  /** The indexes that were built: `gateway_events.idempotency`, or `gateway_payments` for a collection without any. */
  readonly built: readonly string[];
  /** The schema version that the database was prepared for; `null` if it never was. */
  readonly from: number | null;
  /** The schema version that it is prepared for now. */
  readonly to: number;
  readonly packageVersion: string;
}

/**
 * Prepares a database for this version: builds the indexes that are missing, and records the schema version. Removes nothing, so that
 * older versions that are compatible go on beside it. May be run again.
 * @param plan only tells what would be done
 * @throws GatewayError `invalid_options` if a newer version has made the database one that this version must not use, or if an index
 * has other fields or options than this version needs
 */
export async function migrate(connection: Connection, prefix: string, plan = false): Promise<Migration> {
  const needed = everyIndex(createModels(connection, prefix), prefix);
  const db = primaryOf(connection);
  const record = await readSchemaRecord(db, prefix);
  requireCompatible(record);
  const lacking = (await findIndexes(db, needed)).filter(isLacking);
  if (!plan) await buildSchema({ connection, prefix, needed });
  return {
    built: lacking.map(indexName),
    from: record?.version ?? null,
    to: Math.max(record?.version ?? 0, schemaVersion),
    packageVersion: readVersion(),
  };
}
