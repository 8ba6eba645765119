import type { mongo } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import { readVersion } from '../../version.ts';
import { durable } from '../collection.ts';
import { isDuplicateKey } from '../writes.ts';

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

/** The name of the record's collection. */
export function schemaCollection(prefix: string): string {
  return `${prefix}schema`;
}

function collectionOf(db: mongo.Db, prefix: string): mongo.Collection<StoredRecord> {
  const writeConcern = { w: durable.w, journal: durable.j };
  return db.collection<StoredRecord>(schemaCollection(prefix), { writeConcern, readPreference: 'primary' });
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
  throw new GatewayError(
    'invalid_options',
    `mongo: express-model-gateway ${record.packageVersion} has prepared this database (schema version ${record.version}), and ` +
      `versions with a schema version below ${record.compatibleFrom} must not use it; this is ${readVersion()} with schema ` +
      `version ${schemaVersion}: run ${record.packageVersion} or a newer one`,
    { param: 'mongo' },
  );
}

/** Records that this version has prepared the database, unless a newer one has. */
export async function writeSchemaRecord(db: mongo.Db, prefix: string): Promise<void> {
  const record = { version: schemaVersion, compatibleFrom, packageVersion: readVersion(), writtenAt: new Date() };
  const older = { _id: 'schema' as const, version: { $lt: schemaVersion } };
  await collectionOf(db, prefix)
    .updateOne(older, { $set: record }, { upsert: true })
    .catch((error: unknown) => {
      // another process has written it meanwhile, or a newer version before
      if (!isDuplicateKey(error)) throw error;
    });
}
