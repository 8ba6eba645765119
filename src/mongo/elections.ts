import type { Connection } from 'mongoose';

/**
 * In which election a primary was chosen: the id that MongoDB gives it, in hexadecimal, which grows with every election.
 * `standalone` where there are none, `unknown` where the driver does not tell, as behind a mongos.
 */
export type Election = string;

interface ObjectId {
  toHexString(): string;
}

/** What the driver (mongodb 7) knows of its servers; it follows no primary of an earlier election than the latest it has seen. */
interface Topology {
  readonly maxElectionId: ObjectId | null;
  readonly servers: ReadonlyMap<string, { readonly type: string; readonly electionId: ObjectId | null }>;
}

/** The election before which nothing is read from a primary from now on. */
export function latestElection(connection: Connection): Election {
  const { topology } = connection.getClient() as unknown as { topology?: { description?: Topology } };
  const { maxElectionId = null, servers = new Map() } = topology?.description ?? {};
  const [server] = servers.values();
  if (server?.type === 'Standalone') return 'standalone';
  // connected to one member directly, the driver keeps no latest
  return (maxElectionId ?? server?.electionId)?.toHexString() ?? 'unknown';
}

/**
 * Whether a read from a primary, and a later write that a majority has acknowledged, prove together that the read missed
 * nothing that was acknowledged before both. A primary that has been replaced answers reads like any other, but no majority
 * acknowledges what it writes: until the write nobody had been elected after `writtenIn`, and a primary that was elected no
 * earlier has all that was acknowledged.
 * @param readSince the latest election before the read
 * @param writtenIn the election that the write's answer tells
 */
export function isProven(readSince: Election, writtenIn: Election): boolean {
  return readSince !== 'unknown' && readSince === writtenIn;
}
