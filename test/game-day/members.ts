import mongoose from 'mongoose';
import { startEmbeddedMongo } from '../../src/cli/mongo/embedded-mongo.ts';
import { memberUri } from '../faults/cluster/cluster.ts';
import { createSmallDisk } from './small-disk.ts';

/** A replica set of three members on a disk that can be filled. */
export async function startMembers() {
  const disk = await createSmallDisk('3g');
  const mongo = await startEmbeddedMongo({
    temporary: true,
    dataDir: disk.path,
    replicas: 3,
    testCommands: true,
    log: (line) => console.error(line),
  });
  const { uri, nodes } = mongo;
  const connection = await mongoose.createConnection(uri).asPromise();
  return {
    uri,
    nodes,
    disk,
    connection,
    /** Runs a command on each of them. */
    async command(admin: object) {
      for (const { host } of nodes) {
        const member = await mongoose.createConnection(memberUri(uri, host)).asPromise();
        await member.getClient().db('admin').command(admin);
        await member.close();
      }
    },
    async stop() {
      await connection.close();
      // nothing of it is kept, and a primary that is asked to end first waits for a successor
      await Promise.all(nodes.map((node) => node.kill()));
      await mongo.stop();
      await disk.remove();
    },
  };
}
