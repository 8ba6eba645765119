import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeWhole } from '../private-file.ts';

/** The record of a data folder's database: `mongo.json`. */
export interface MongoRecord {
  readonly uri: string;
  /** The process that runs the database; `null` once it has been stopped. */
  readonly pid: number | null;
  readonly ports: readonly number[];
}

const recordPath = (dataDir: string): string => join(dataDir, 'mongo.json');

/** Replaces the record in one step, readable by the owner alone. */
export function writeRecord(dataDir: string, record: MongoRecord): Promise<void> {
  return writeWhole(recordPath(dataDir), `${JSON.stringify(record)}\n`);
}

/** The record, or `undefined` where there is none that can be read. */
export async function readRecord(dataDir: string): Promise<MongoRecord | undefined> {
  try {
    return JSON.parse(await readFile(recordPath(dataDir), 'utf8')) as MongoRecord;
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** The record of a database that runs now. */
export async function runningRecord(dataDir: string): Promise<MongoRecord | undefined> {
  const record = await readRecord(dataDir);
  return record?.pid && isAlive(record.pid) ? record : undefined;
}
