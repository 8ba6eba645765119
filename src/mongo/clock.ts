import type { Connection } from 'mongoose';
import { databaseOf } from './collection.ts';
import { withTimeout } from './periodic.ts';

/**
 * The database's clock, which decides what is due, for inserted documents: an insert cannot use `$$NOW`. It is read now and
 * then; in between, this process's monotonic clock advances a reading, so a wrong clock here changes nothing. If the
 * result is inexact, it is in the database's past, so that nothing becomes due later: by as long as the quickest answer of the last
 * {@link validFor} was on its way. After an election, no reading of the former primary is used.
 */
export interface DatabaseClock {
  now(): Promise<Date>;
}

/** A moment by the database's clock. */
export interface Moment {
  readonly time: Date;
  /** The same moment by `performance.now()`, or right after it. */
  readonly monotonic: number;
}

/** The database's time now, counted from a recent moment. */
export function timeSince({ time, monotonic }: Moment): Date {
  return new Date(time.getTime() + Math.floor(performance.now() - monotonic));
}

/** How long a reading is valid. Milliseconds. */
const validFor = 10_000;
/**
 * An older reading is still used, but replaced meanwhile: after the database's clock is set ahead, a claim that is inserted with an
 * old reading has lapsed at once, and its attempt is made twice. Milliseconds.
 */
const freshFor = 500;
/** How long to wait for the answer: the connection may be dead, and the next one alive. Milliseconds. */
const longestRead = 2_000;
/** If an answer takes longer, its reading may be older than a lease, so the clock is read again. Milliseconds. */
const quickAnswer = 250;
/** If this machine's clocks drift apart by more, it was suspended or its clock was set, and the reading is void. Milliseconds. */
const driftLimit = 500;

interface Reading {
  /** The server's clock at its answer. */
  readonly time: number;
  /** This process's monotonic clock when it asked. */
  readonly askedAt: number;
  /** This process's clocks when the answer arrived. */
  readonly monotonic: number;
  readonly wall: number;
  /** The latest election before the read. */
  readonly election: Election;
}

/**
 * Whether a reading of before is nearer to the server's clock than this one, whose answer was longer on its way. If that clock was set
 * meanwhile, the earlier reading contradicts the later one: by it, the server answered before it was asked. The server's clock tells whole
 * milliseconds.
 */
function isNearer(earlier: Reading, later: Reading): boolean {
  const offset = earlier.time - earlier.monotonic;
  return offset > later.time - later.monotonic && offset < later.time + 1 - later.askedAt;
}

export function createDatabaseClock(connection: Connection): DatabaseClock {
  const admin = databaseOf(connection, { name: 'admin' });
  /** The quickest of the answers that count, and the last one. */
  let reading: Reading | null = null;
  let latest: Reading | null = null;
  let reads: Promise<Reading> | null = null;

  /** Callers at the same moment share a read. */
  function read(): Promise<Reading> {
    reads ??= readOnce().finally(() => {
      reads = null;
    });
    return reads;
  }

  async function readOnce(): Promise<Reading> {
    let took = Number.POSITIVE_INFINITY;
    let quickest: Reading | undefined;
    // if this process stands still during a read, the reading is behind by that time: then the quicker of two counts
    for (let tries = 0; tries < 2 && took >= quickAnswer; tries += 1) {
      const election = latestElection(connection);
      const askedAt = performance.now();
      const { localTime } = (await withTimeout(admin.command({ hello: 1 }), longestRead, false)) as { localTime: Date };
      const monotonic = performance.now();
      if (monotonic - askedAt >= took) continue;
      took = monotonic - askedAt;
      quickest = { time: localTime.getTime(), askedAt, monotonic, wall: Date.now(), election };
    }
    latest = quickest as Reading;
    if (!usable(reading) || !isNearer(reading, latest)) reading = latest;
    return reading;
  }

  function usable(read: Reading | null): read is Reading {
    if (read === null) return false;
    const { monotonic, wall, election } = read;
    const age = performance.now() - monotonic;
    if (election !== latestElection(connection)) return false;
    return age < validFor && Math.abs(Date.now() - wall - age) < driftLimit;
  }

  return {
    async now() {
      if (!usable(reading)) reading = latest;
      let used = reading;
      if (!usable(used)) {
        used = await read();
        // the primary was replaced meanwhile
        if (!usable(used)) used = await read();
      }
      const now = performance.now();
      // in the next turn, so that what waits for this time is sent first; after a failure, the next caller that needs it reads again
      if (now - (latest ?? used).monotonic > freshFor) setImmediate(() => read().catch(() => {}));
      return new Date(Math.floor(used.time + now - used.monotonic));
    },
  };
}

/**
 * After this time the clock is asked, too, when something was claimed: the server says when it began to write claims, which may be hundreds,
 * and attempts would end, by their records, 100 ms before their receivers saw them. Milliseconds.
 */
const quickClaim = 10;
/** How long the clock is waited for: the claim's lease goes on meanwhile. Milliseconds. */
const longestWait = 250;

/** Now, where the answer to claims that were asked for then has just come, and was slow; `undefined` also if the clock cannot be read. */
export async function momentIfSlow(clock: DatabaseClock, askedAt: number): Promise<Moment | undefined> {
  if (performance.now() - askedAt < quickClaim) return undefined;
  try {
    return { time: await withTimeout(clock.now(), longestWait), monotonic: performance.now() };
  } catch {
    return undefined;
  }
}

/** The database's time in so many milliseconds, in an update or a query. */
export function fromNow(ms: number) {
  return { $add: ['$$NOW', ms] } as const;
}

/**
 * The election in which a primary was chosen: MongoDB's id, in hexadecimal, which grows with every election. `standalone` for a
 * standalone mongod, `unknown` if the driver does not know it, as behind a mongos.
 */
export type Election = string;

interface ObjectId {
  toHexString(): string;
}

/** The driver's (mongodb 7) view of its servers. It follows no primary of an earlier election than the latest it has seen. */
interface Topology {
  readonly maxElectionId: ObjectId | null;
  readonly servers: ReadonlyMap<string, { readonly type: string; readonly electionId: ObjectId | null }>;
}

/** The latest election that the driver has seen: from now on, it reads from no primary of an earlier one. */
export function latestElection(connection: Connection): Election {
  const { topology } = connection.getClient() as unknown as { topology?: { description?: Topology } };
  const { maxElectionId = null, servers = new Map() } = topology?.description ?? {};
  const [server] = servers.values();
  if (server?.type === 'Standalone') return 'standalone';
  // with a direct connection to one member, the driver keeps no latest election
  return (maxElectionId ?? server?.electionId)?.toHexString() ?? 'unknown';
}
