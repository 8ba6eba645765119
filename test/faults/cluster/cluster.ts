import { setTimeout as sleep } from 'node:timers/promises';
import mongoose from 'mongoose';
import { type MongoNode, startEmbeddedMongo } from '../../../src/cli/mongo/embedded-mongo.ts';
import { memoryFolder } from '../../support/database/memory-folder.ts';
import { until } from '../../support/until.ts';
import { createNetwork } from './network.ts';

/** `appName` of the suite's own connections, which no fault of the network meets. */
const suiteApp = 'faults-suite';

/** A member, and its number. */
export interface ClusterMember {
  readonly index: number;
  readonly node: MongoNode;
}

/** The URI of one member alone, whatever it is at present. */
export function memberUri(uri: string, host: string): string {
  return uri.replace(/@[^/]+/, `@${host}`).replace(/replicaSet=[^&]+/, 'directConnection=true');
}

/** Three members with a network before each, and what can be done to them. */
export async function startCluster() {
  const network = createNetwork(suiteApp);
  const addresses: string[] = [];
  const embedded = await startEmbeddedMongo({
    temporary: true,
    dataDir: await memoryFolder(),
    replicas: 3,
    testCommands: true,
    log: (line) => console.error(line),
    async addressOf(member, port) {
      // a name, so that clients must look it up
      const address = (await network.addMember(member, port)).replace('127.0.0.1', 'localhost');
      addresses[member] = address;
      return address;
    },
  });
  const { uri, nodes } = embedded;
  const times = { serverSelectionTimeoutMS: 60_000, heartbeatFrequencyMS: 1_000, appName: suiteApp };
  const connection = await mongoose.createConnection(uri, times).asPromise();
  const admin = connection.getClient().db('admin');

  /** The member that takes writes; waits for one. */
  async function primary(): Promise<ClusterMember> {
    for (;;) {
      const hello = await admin.command({ hello: 1 }).catch(() => null);
      const index = addresses.indexOf(hello?.primary);
      const node = nodes[index];
      if (node) return { index, node };
      await sleep(100);
    }
  }

  /** Resolves when a member tells a time that is so many seconds ahead of this process's, within `tolerance`. */
  async function untilClockIs({ host }: MongoNode, ahead: number, tolerance: number): Promise<void> {
    const member = await mongoose.createConnection(memberUri(uri, host), { appName: suiteApp }).asPromise();
    try {
      await until(async () => {
        const { localTime } = await member.getClient().db('admin').command({ hello: 1 });
        return Math.abs(localTime.getTime() - Date.now() - ahead * 1_000) < tolerance * 1_000;
      });
    } finally {
      await member.close();
    }
  }

  /** Calls back whenever a member has been elected, be it the same again. */
  function onElection(tell: () => void): void {
    let last: string | undefined;
    connection.getClient().on('topologyDescriptionChanged', ({ newDescription: { servers } }) => {
      const now = [...servers.values()].find(({ type }) => type === 'RSPrimary')?.electionId?.toHexString();
      if (now === undefined || now === last) return;
      if (last !== undefined) tell();
      last = now;
    });
  }

  return {
    uri,
    onElection,
    nodes,
    network,
    connection,
    admin,
    primary,
    untilClockIs,
    async stop() {
      await connection.close();
      // nothing of it is kept, and a primary that is asked to end first waits for a successor
      await Promise.all(nodes.map((node) => node.kill()));
      await embedded.stop();
      await network.close();
    },
  };
}

export type Cluster = Awaited<ReturnType<typeof startCluster>>;
