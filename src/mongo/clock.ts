import type { Connection } from 'mongoose';
import { type Election, latestElection } from './elections.ts';
import { withTimeout } from './with-timeout.ts';

/**
 * The database's clock, which decides what is due, for documents that are inserted: an insert cannot say `$$NOW`. Read
 * now and then, and carried on by this process's monotonic clock in between, so that a wrong clock here changes nothing.
 * Where the two cannot agree, the time told is a little in the database's past: nothing is due later for it. It is the clock of one
 * primary: nothing that was read from another one is told.
 */
export interface DatabaseClock {
  now(): Promise<Date>;
}

/** A moment by the database's clock. */
export interface Moment {
  readonly time: Date;
  /** By `performance.now()`: then, or right after. */
  readonly monotonic: number;
}

export async function readMoment(clock: DatabaseClock): Promise<Moment> {
  const time = await clock.now();
  return { time, monotonic: performance.now() };
}

/** The database's time now, carried on from a moment that is not long past. */
export function carriedOn({ time, monotonic }: Moment): Date {
  return new Date(time.getTime() + Math.floor(performance.now() - monotonic));
}

/** A reading is carried on for so long: while a server is silent, its clock is read again before the last reading is void. Milliseconds. */
const validFor = 10_000;
/**
 * One that is older is replaced while it still serves: when the database's clock is set ahead, what is inserted as claimed by an old
 * reading is free at once, and made twice. Who inserts something now and then uses an old one first. Milliseconds.
 */
const freshFor = 500;
/** How long the answer is waited for: a connection may be dead, and the next one is not. Milliseconds. */
const longestRead = 2_000;
/** A reading whose answer took longer may be older than a lease: it is asked for once more. Milliseconds. */
const quickAnswer = 250;
/** By so much the clocks of this machine may drift apart until a reading counts as void: it was suspended, or set. Milliseconds. */
const driftLimit = 500;

interface Reading {
  /** The server's clock, when it answered. */
  readonly time: number;
  /** This process's clocks, when the answer had come. */
  readonly monotonic: number;
  readonly wall: number;
  /** The latest one before it was asked for. */
  readonly election: Election;
}

export function createDatabaseClock(connection: Connection): DatabaseClock {
  const admin = connection.getClient().db('admin', { readPreference: 'primary' });
  let reading: Reading | null = null;
  let reads: Promise<Reading> | null = null;

  async function readAsQuickly(): Promise<Reading & { readonly took: number }> {
    const election = latestElection(connection);
    const asked = performance.now();
    const { localTime } = (await withTimeout(admin.command({ hello: 1 }), longestRead, false)) as { localTime: Date };
    const monotonic = performance.now();
    return { time: localTime.getTime(), monotonic, wall: Date.now(), election, took: monotonic - asked };
  }

  /** What was read while this process stood still is as far behind as it stood still. */
  async function read(): Promise<Reading> {
    const first = await readAsQuickly();
    if (first.took < quickAnswer) return first;
    const second = await readAsQuickly();
    return second.took < first.took ? second : first;
  }

  function readOnce(): Promise<Reading> {
    reads ??= read()
      .then((made) => {
        reading = made;
        return made;
      })
      .finally(() => {
        reads = null;
      });
    return reads;
  }

  function usable({ monotonic, wall, election }: Reading): boolean {
    const age = performance.now() - monotonic;
    if (election !== latestElection(connection)) return false;
    return age < validFor && Math.abs(Date.now() - wall - age) < driftLimit;
  }

  /** Read again where the primary is replaced meanwhile. */
  async function readUsable(): Promise<Reading> {
    const first = await readOnce();
    return usable(first) ? first : readOnce();
  }

  return {
    async now() {
      const used = reading !== null && usable(reading) ? reading : await readUsable();
      const age = performance.now() - used.monotonic;
      // what fails here is read again when it is needed
      if (age > freshFor) readOnce().catch(() => {});
      return new Date(Math.floor(used.time + age));
    },
  };
}
