import { withTimeout } from '../../../mongo/periodic.ts';
import { leastFree, readFreeDisk } from '../../../mongo/probes/disk-space.ts';
import { confirmWrites, slowWrite } from '../../../mongo/probes/write-time.ts';
import { schemaCollection } from '../../../mongo/schema/schema-record.ts';
import { type DatabaseContext, failed, ok, type Result, skipped, warning } from '../check.ts';

/** From here on there is still time to act. A share of 1. */
const littleFree = 0.2;
/** A write that takes longer is not waited for. Milliseconds. */
const longestWrite = 10_000;
const unauthorized = 13;

/** How full the disk of the primary is. */
export async function checkDisk({ db }: Pick<DatabaseContext, 'db'>): Promise<readonly Result[]> {
  const free = await readFreeDisk(db);
  if (free === undefined) return [skipped('the database does not say how full its disk is, as through mongos')];
  const message = `${Math.round(free * 100)} % of the primary's disk is free`;
  const remedy = 'give the database a larger disk, or shorten RETENTION_DAYS; look at the other members too';
  if (free < leastFree) return [failed(message, remedy)];
  return [free < littleFree ? warning(message, remedy) : ok(message)];
}

/** How long the members take to confirm what is written. The write that asks changes nothing. */
export async function checkWrites({ db, prefix }: Pick<DatabaseContext, 'db' | 'prefix'>): Promise<readonly Result[]> {
  const startedAt = performance.now();
  const remedy = 'look at the disks of the members (iostat -x), and at the network between them';
  try {
    await withTimeout(confirmWrites(db, schemaCollection(prefix)), longestWrite);
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === unauthorized)
      return [skipped('the user of the URI must not write')];
    if (performance.now() - startedAt < slowWrite) throw error;
  }
  const took = performance.now() - startedAt;
  const message = `a majority takes ${(took / 1_000).toFixed(2)} s to have a write in its journal`;
  return [took > slowWrite ? failed(message, remedy) : ok(message)];
}
