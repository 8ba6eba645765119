import type { Connection } from 'mongoose';

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

/**
 * Whether a read from a primary, and a later write that a majority has acknowledged, together prove that the read missed nothing
 * that was acknowledged before. A replaced primary answers reads like any other, but no majority acknowledges its writes. So
 * until the write, no primary was elected after `writtenIn`, and the primary of that election has everything that was
 * acknowledged.
 * @param readSince the latest election before the read
 * @param writtenIn the election in the write's answer
 */
export function provesComplete(readSince: Election, writtenIn: Election): boolean {
  return readSince !== 'unknown' && readSince === writtenIn;
}
