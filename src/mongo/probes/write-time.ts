import { setTimeout as sleep } from 'node:timers/promises';
import type { mongo } from 'mongoose';
import { durable } from '../collection.ts';
import { withTimeout } from '../with-timeout.ts';

/** A write that takes longer than this keeps everybody waiting. Milliseconds. */
export const slowWrite = 1_000;
/** The driver may never settle a command whose connection closes before it is written. Milliseconds. */
const longestWrite = 10_000;
/** From the end of one measurement to the next, for those who ask often. Milliseconds. */
const interval = 5_000;

/** Waits until a majority has in its journal what was written before. Changes nothing: no document matches. */
export async function confirmWrites(db: mongo.Db, collection: string): Promise<void> {
  const nothing = { q: { _id: 'none' }, u: { $set: { none: true } } };
  await db.command({ update: collection, updates: [nothing], writeConcern: durable });
}

/**
 * Makes a function that tells how long such a write takes, in milliseconds. While one is under way for longer than any before, it is how
 * long it has taken so far. `undefined` where the write failed.
 * @param write see {@link confirmWrites}
 */
export function createWriteTime(write: () => Promise<void>): () => Promise<number | undefined> {
  let last: { readonly took: number | undefined; readonly at: number } | undefined;
  let running: { readonly startedAt: number; readonly ended: Promise<void> } | undefined;

  async function measure(startedAt: number): Promise<void> {
    const hasSucceeded = await withTimeout(write(), longestWrite, false).then(
      () => true,
      () => false,
    );
    const took = performance.now() - startedAt;
    // one that was given up for its length is slow; one that failed at once says nothing of the disk
    last = { took: hasSucceeded || took > slowWrite ? took : undefined, at: performance.now() };
    running = undefined;
  }

  return async function writeTime() {
    const now = performance.now();
    if (!running && (!last || now - last.at > interval)) running = { startedAt: now, ended: measure(now) };
    const wait = running && Math.max(0, slowWrite - (performance.now() - running.startedAt));
    if (running) await Promise.race([running.ended, sleep(wait, undefined, { ref: false })]);
    return running ? Math.max(last?.took ?? 0, performance.now() - running.startedAt) : last?.took;
  };
}
