import { MongoClient } from 'mongodb';
import { startEmbeddedMongo } from '../../../src/cli/mongo/embedded-mongo.ts';
import { startTcpProxy } from '../servers/tcp-proxy.ts';
import { memoryFolder } from './memory-folder.ts';

/** The ways in which a database fails. */
export const faultNames = [
  'it is killed',
  'it is stopped: its connections stay open and silent',
  'the network drops what is sent',
  'the network drops what it answers',
  'its connections are closed',
  'there is no primary',
] as const;
export type FaultName = (typeof faultNames)[number];

/** How a database fails in one of these ways, and how it comes back. */
export interface DatabaseFault {
  begin(): Promise<void>;
  end(): Promise<void>;
}

/** A replica set of one, reached through a proxy, that can be made to fail in every way we know. */
export async function startBreakableDatabase() {
  const mongo = await startEmbeddedMongo({
    temporary: true,
    dataDir: await memoryFolder(),
    testCommands: true,
    log: (line) => console.error(line),
  });
  const [node] = mongo.nodes;
  if (!node) throw new Error('there is no member');
  const proxy = await startTcpProxy({ port: node.port });
  function uriAt(port: number): string {
    const url = new URL(mongo.uri);
    url.port = String(port);
    url.searchParams.delete('replicaSet');
    url.searchParams.set('directConnection', 'true');
    return url.href;
  }

  /** Beside the proxy. */
  async function admin(command: object): Promise<void> {
    const client = new MongoClient(uriAt(node?.port ?? 0));
    try {
      await client.db('admin').command(command);
    } finally {
      await client.close();
    }
  }

  const faults: Readonly<Record<FaultName, DatabaseFault>> = {
    'it is killed': { begin: () => node.kill(), end: () => node.start() },
    'it is stopped: its connections stay open and silent': {
      begin: async () => void process.kill(node.pid, 'SIGSTOP'),
      end: async () => void process.kill(node.pid, 'SIGCONT'),
    },
    'the network drops what is sent': { begin: async () => proxy.swallow(), end: async () => proxy.pass() },
    'the network drops what it answers': { begin: async () => proxy.swallow('down'), end: async () => proxy.pass() },
    'its connections are closed': { begin: async () => proxy.cut(), end: async () => proxy.pass() },
    'there is no primary': {
      begin: () => admin({ replSetStepDown: 120, force: true }),
      end: () => admin({ replSetFreeze: 0 }),
    },
  };

  return {
    uri: uriAt(proxy.port),
    directUri: uriAt(node.port),
    proxy,
    node,
    faults,
    async stop() {
      await proxy.close();
      await mongo.stop();
    },
  };
}

export type BreakableDatabase = Awaited<ReturnType<typeof startBreakableDatabase>>;
