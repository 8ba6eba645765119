import { setTimeout as sleep } from 'node:timers/promises';
import mongoose, { type Connection } from 'mongoose';
import { type Cluster, memberUri } from '../../faults/cluster/cluster.ts';

/**
 * A primary that does not know that another one has replaced it. It finds that out after its election timeout; whoever is
 * connected to it alone reads what it has before and after that.
 */
export interface StalePrimary {
  /** A connection to it alone. */
  readonly connection: Connection;
  /** Joins the members again. */
  end(): Promise<void>;
}

/** Parts the primary from the other members, which elect another one at once; clients reach them all. */
export async function makeStale({ primary, nodes, network, uri }: Cluster): Promise<StalePrimary> {
  const { index, node } = await primary();
  const other = nodes.findIndex((_, i) => i !== index);
  const connect = (host = '') => mongoose.createConnection(memberUri(uri, host)).asPromise();
  const connection = await connect(node.host);
  const candidate = await connect(nodes[other]?.host).catch(async (error) => {
    await connection.close();
    throw error;
  });
  const join = network.inject({
    action: 'cut',
    on: ({ from, to }) => from !== undefined && (from === index || to === index),
  });
  const admin = candidate.getClient().db('admin');
  do {
    // it fails where the other one has more
    await admin.command({ replSetStepUp: 1 }).catch(() => sleep(100));
  } while ((await primary()).index !== other);
  await candidate.close();

  return {
    connection,
    async end() {
      join();
      await connection.close();
    },
  };
}
