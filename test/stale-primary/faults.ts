import { setTimeout as sleep } from 'node:timers/promises';
import mongoose from 'mongoose';
import { type Cluster, memberUri } from '../faults/cluster/cluster.ts';

/** Has it end; the replica set recovers. */
type Recover = () => Promise<void>;

/** How long a primary that has lost its majority goes on as primary. Milliseconds. */
export const term = 3_000;
/** The same while no fault is wanted: the rows keep the members so busy that they could miss each other for a while. */
export const longTerm = 20_000;

const clientOf = (uri: string, host = '') => mongoose.createConnection(memberUri(uri, host)).asPromise();

/** Has a primary go on for so long after it has lost its majority. */
export async function setTerm({ admin }: Cluster, electionTimeoutMillis: number): Promise<void> {
  const { config } = await admin.command({ replSetGetConfig: 1 });
  const settings = { ...config.settings, electionTimeoutMillis };
  await admin.command({ replSetReconfig: { ...config, version: config.version + 1, settings } });
}

/** Has the member at this address elected if it is not the primary. */
export async function elect({ uri, primary }: Cluster, host: string): Promise<void> {
  if ((await primary()).node.host === host) return;
  const member = await clientOf(uri, host);
  do {
    // it fails where another one has more
    await member
      .getClient()
      .db('admin')
      .command({ replSetStepUp: 1 })
      // the pace of the tries
      .catch(() => sleep(100));
  } while ((await primary()).node.host !== host);
  await member.close();
}

/**
 * Parts the primary from the other members, which elect another one at once; clients reach them all. It finds out that it has
 * been replaced after its term; whoever is connected to it alone reads what it has before and after that.
 */
async function replace(cluster: Cluster): Promise<Recover> {
  const { primary, nodes, network } = cluster;
  const { index } = await primary();
  const other = nodes.findIndex((_, i) => i !== index);
  const join = network.inject({
    action: 'cut',
    on: ({ from, to }) => from !== undefined && (from === index || to === index),
  });
  await elect(cluster, nodes[other]?.host ?? '');
  return async () => join();
}

/** Stops the other members. */
async function leaveAlone({ primary, nodes }: Cluster): Promise<Recover> {
  const { index } = await primary();
  const others = nodes.filter((_, i) => i !== index);
  for (const { pid } of others) process.kill(pid, 'SIGSTOP');
  return async () => {
    for (const { pid } of others) process.kill(pid, 'SIGCONT');
  };
}

/**
 * Keeps the other members from taking what the primary writes: it goes on as primary, and a majority confirms nothing. The
 * replica set recovers by its end, with another primary, which lacks what this one has written since.
 */
async function isolate(cluster: Cluster): Promise<Recover> {
  const { node: isolated } = await cluster.primary();
  const others = cluster.nodes.filter(({ host }) => host !== isolated.host);
  const atOthers = async (mode: 'alwaysOn' | 'off') => {
    for (const { host } of others) {
      const connection = await clientOf(cluster.uri, host);
      const admin = connection.getClient().db('admin');
      const { count } = await admin.command({ configureFailPoint: 'stopReplProducer', mode });
      const entered = { waitForFailPoint: 'stopReplProducer', timesEntered: count + 1, maxTimeMS: 30_000 };
      if (mode === 'alwaysOn') await admin.command(entered);
      await connection.close();
    }
  };
  await atOthers('alwaysOn');
  return async () => {
    await isolated.kill();
    await atOthers('off');
  };
}

/** What befalls a primary, in the words of the table. In the last one it dies. */
export const faults = {
  'a replaced primary': replace,
  // apart, because all writes there wait for the majority from then on, also those that match nothing
  'a replaced primary that takes a write': replace,
  // apart, because a confirmed read writes there, too: until the first one, a write that matches nothing is confirmed at once
  'a replaced primary that takes no write': replace,
  'a primary without its majority': leaveAlone,
  'a primary whose writes reach no other member': isolate,
};

export type Fault = keyof typeof faults;
