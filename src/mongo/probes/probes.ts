import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection, mongo } from 'mongoose';
import { databaseOf, durable } from '../collection.ts';
import { withTimeout } from '../periodic.ts';

/** A write that takes longer than this keeps everybody waiting. Milliseconds. */
export const slowWrite = 1_000;
/** The driver may never settle a command whose connection closes before it is written. Milliseconds. */
const longestWrite = 10_000;
/**
 * How long the members may take to confirm it, so that no write is left behind if a host's connection waits without limit.
 * Milliseconds.
 */
const wtimeout = 20_000;
/** From the end of one measurement to the next, for those who ask often. Milliseconds. */
const interval = 5_000;

/** Waits until a majority has in its journal what was written before. Changes nothing: no document matches. */
export async function confirmWrites(db: mongo.Db, collection: string): Promise<void> {
  const nothing = { q: { _id: 'none' }, u: { $set: { none: true } } };
  await db.command({ update: collection, updates: [nothing], writeConcern: { ...durable, wtimeout } });
}

/**
 * Makes a function that tells how long such a write takes, in milliseconds. While one is under way for longer than any before, it is how
 * long it has taken so far. `undefined` where the write failed.
 * @param write see {@link confirmWrites}
 * @param longest after which a write counts as given up. Milliseconds.
 */
export function createWriteTime(write: () => Promise<void>, longest = longestWrite): () => Promise<number | undefined> {
  let last: { readonly took: number | undefined; readonly at: number } | undefined;
  let running: { readonly startedAt: number; readonly ended: Promise<void> } | undefined;

  async function measure(startedAt: number): Promise<void> {
    const succeeded = () => true;
    const hasSucceeded = await withTimeout(write().then(succeeded), longest, false).catch(() => false);
    const took = performance.now() - startedAt;
    // one that was given up for its length is slow; one that failed at once says nothing of the disk
    last = { took: hasSucceeded || took > slowWrite ? took : undefined, at: performance.now() };
    running = undefined;
  }

  return async function writeTime() {
    const now = performance.now();
    if (!running && (!last || now - last.at > interval)) running = { startedAt: now, ended: measure(now) };
    if (running) {
      // a timer may fire a millisecond early
      const wait = Math.max(0, Math.ceil(slowWrite - (performance.now() - running.startedAt)) + 1);
      await Promise.race([running.ended, sleep(wait, undefined, { ref: false })]);
    }
    return running ? Math.max(last?.took ?? 0, performance.now() - running.startedAt) : last?.took;
  };
}

/** How long a value is used that is not good. Milliseconds. */
const otherwiseFor = 5_000;

/**
 * Makes a function that caches what `read` returns: for 5 s if the value is not good. It returns `undefined` if the value cannot be read.
 * @param wellFor how long a good value is used. Milliseconds.
 */
export function createCachedReading<T>(
  read: () => Promise<T>,
  isWell: (value: T) => boolean,
  wellFor = 15_000,
): () => Promise<T | undefined> {
  let last: { readonly at: number; readonly value: Promise<T | undefined> } | undefined;
  let validFor = 0;

  async function readAgain(): Promise<T | undefined> {
    try {
      const value = await read();
      validFor = isWell(value) ? wellFor : otherwiseFor;
      return value;
    } catch {
      return undefined;
    }
  }

  return () => {
    const now = performance.now();
    if (!last || now - last.at > validFor) {
      validFor = otherwiseFor;
      last = { at: now, value: readAgain() };
    }
    return last.value;
  };
}

/** How far this machine's clock may be from the database's: receivers refuse signatures that are five minutes old. Milliseconds. */
export const longestSkew = 10_000;

/** The database's clock, and this machine's before it was asked and after it answered. Milliseconds since 1970. */
interface ClockReading {
  readonly askedAt: number;
  readonly localTime: Date;
  readonly answeredAt: number;
}

/** By how much this machine is certainly ahead of the database; negative where it is behind. Milliseconds. */
export function clockSkew({ askedAt, localTime, answeredAt }: ClockReading): number {
  const [ahead, behind] = [askedAt - localTime.getTime(), localTime.getTime() - answeredAt];
  return behind > 0 ? -behind : Math.max(0, ahead);
}

/** How long the database may take to answer. Milliseconds. */
const longestRead = 1_000;

/**
 * Makes the function that asks the primary for its time, and says by how much this machine is ahead of it, in milliseconds, as
 * {@link clockSkew} does; `undefined` where no primary answers within a second.
 */
export function createReadSkew(connection: Connection): () => Promise<number | undefined> {
  const admin = databaseOf(connection, { name: 'admin' });
  return async function readSkew() {
    const askedAt = Date.now();
    try {
      const { localTime, isWritablePrimary } = await withTimeout(admin.command({ hello: 1 }), longestRead, false);
      return isWritablePrimary ? clockSkew({ askedAt, localTime, answeredAt: Date.now() }) : undefined;
    } catch {
      return undefined;
    }
  };
}

/** With less of its disk free, a database is soon read-only, or ends. A share of 1. */
export const leastFree = 0.1;

/** How much of the primary's disk is free, as a share of 1; `undefined` where it does not say so, as through mongos. */
export async function readFreeDisk(db: mongo.Db): Promise<number | undefined> {
  const { fsUsedSize, fsTotalSize } = await db.command({ dbStats: 1 });
  if (!(fsTotalSize > 0)) return undefined;
  return Math.max(0, 1 - fsUsedSize / fsTotalSize);
}
