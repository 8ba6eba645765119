import mongoose from 'mongoose';
import { type Cluster, memberUri } from '../../faults/cluster/cluster.ts';

/** A primary whose writes reach no other member, while it goes on as primary. */
export interface IsolatedPrimary {
  /** Ends it with what it has written since, and has one of the others elected. */
  replace(): Promise<void>;
}

async function adminOf(uri: string, host: string) {
  const connection = await mongoose.createConnection(memberUri(uri, host)).asPromise();
  return { connection, admin: connection.getClient().db('admin') };
}

/** Keeps the other members from taking what the primary writes: a majority confirms nothing any more. */
export async function isolatePrimary(cluster: Cluster): Promise<IsolatedPrimary> {
  const { node: isolated } = await cluster.primary();
  const others = cluster.nodes.filter(({ host }) => host !== isolated.host);
  for (const { host } of others) {
    const { connection, admin } = await adminOf(cluster.uri, host);
    const { count } = await admin.command({ configureFailPoint: 'stopReplProducer', mode: 'alwaysOn' });
    await admin.command({ waitForFailPoint: 'stopReplProducer', timesEntered: count + 1, maxTimeMS: 30_000 });
    await connection.close();
  }
  return {
    async replace() {
      await isolated.kill();
      for (const { host } of others) {
        const { connection, admin } = await adminOf(cluster.uri, host);
        await admin.command({ configureFailPoint: 'stopReplProducer', mode: 'off' });
        await connection.close();
      }
    },
  };
}
