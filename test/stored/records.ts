import type { Connection } from 'mongoose';
import { createStoredObjectModel } from '../../src/stored/model.ts';
import { StoredObjectRecords } from '../../src/stored/service.ts';
import { silentLogger } from '../support/logger.ts';

type Deps = ConstructorParameters<typeof StoredObjectRecords>[0];

/** The records of what upstreams keep, in a database that is there unless a test says otherwise. They are kept for 7 days. */
export function openStoredRecords(connection: Connection, deps: Partial<Deps> = {}) {
  const objects = createStoredObjectModel(connection, 'test_');
  const records = new StoredObjectRecords({
    objects,
    database: { require() {}, run: (work) => work(), isUnavailable: false },
    retentionDays: 7,
    background: { interval: 1_000, timeout: 10_000 },
    logger: silentLogger,
    ...deps,
  });
  return { objects, records };
}
