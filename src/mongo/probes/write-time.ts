import { setTimeout as sleep } from 'node:timers/promises';
import type { mongo } from 'mongoose';
import { durable } from '../collection.ts';
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
    const hasSucceeded = await withTimeout(write(), longest, false).then(
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
    if (running) {
      // a timer may fire a millisecond early
      const wait = Math.max(0, Math.ceil(slowWrite - (performance.now() - running.startedAt)) + 1);
      await Promise.race([running.ended, sleep(wait, undefined, { ref: false })]);
    }
    return running ? Math.max(last?.took ?? 0, performance.now() - running.startedAt) : last?.took;
  };
}
