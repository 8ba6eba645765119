import { setTimeout as sleep } from 'node:timers/promises';
import mongoose from 'mongoose';
import { startEmbeddedMongo } from '../../src/standalone/embedded-mongo.ts';
import { memoryFolder } from '../support/memory-folder.ts';

/** Three members, and what can be done to them. */
export async function startCluster() {
  const embedded = await startEmbeddedMongo({
    temporary: true,
    dataDir: await memoryFolder(),
    replicas: 3,
    testCommands: true,
    log: (line) => console.error(line),
  });
  const { uri } = embedded;
  const connection = await mongoose.createConnection(uri, { serverSelectionTimeoutMS: 60_000 }).asPromise();
  const admin = connection.getClient().db('admin');

  async function primary() {
    for (;;) {
      const hello = await admin.command({ hello: 1 }).catch(() => null);
      const node = embedded.nodes.find(({ host }) => host === hello?.primary);
      if (node) return node;
      await sleep(100);
    }
  }

  return {
    uri,
    nodes: embedded.nodes,
    connection,
    admin,
    primary,
    async stop() {
      await connection.close();
      await embedded.stop();
    },
  };
}

export type Cluster = Awaited<ReturnType<typeof startCluster>>;
