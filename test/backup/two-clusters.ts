import { mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Document, MongoClient } from 'mongodb';
import { findMongod, mongodSources } from '../../src/cli/mongo/binary.ts';
import { startGuardian } from '../../src/cli/mongo/guardian.ts';
import { startOnData } from '../../src/cli/mongo/mongod.ts';
import { bringUpReplicaSet, loadAccess, replicaSetUri } from '../../src/cli/mongo/replica-set.ts';
import { memoryFolder } from '../support/database/memory-folder.ts';

const replSet = 'gateway';
const size = 3;

/** A member in the configuration of a replica set. */
export interface MemberConfig {
  readonly _id: number;
  readonly host: string;
  readonly priority?: number;
  readonly votes?: number;
}

/** A replica set of three members, and three more that belong to nothing yet, with the same key file. */
export async function startTwoClusters() {
  const folder = await mkdtemp(join((await memoryFolder()) ?? tmpdir(), 'express-model-gateway-move-'));
  const binary = await findMongod(mongodSources(join(homedir(), '.cache', 'express-model-gateway')), () => {});
  const access = await loadAccess(folder);
  const guardian = startGuardian(folder);
  async function startMember(i: number) {
    const place = { dbPath: join(folder, String(i)), logPath: join(folder, `${i}.log`) };
    const mongod = await startOnData({ ...place, binary, replSet, access, guardian, testCommands: false }, folder);
    const end = (signal: NodeJS.Signals) => async () => {
      mongod.kill(signal);
      await mongod.ended;
    };
    return { host: `127.0.0.1:${mongod.port}`, stop: end('SIGTERM'), kill: end('SIGKILL') };
  }
  const nodes = await Promise.all(Array.from({ length: 2 * size }, (_, i) => startMember(i)));
  const uriOf = (some: readonly { readonly host: string }[]) =>
    replicaSetUri({ name: replSet, hosts: some.map(({ host }) => host), access });
  const [old, fresh] = [nodes.slice(0, size), nodes.slice(size)];
  await bringUpReplicaSet({ name: replSet, hosts: old.map(({ host }) => host), access });
  // knows all, whoever is primary
  const client = new MongoClient(uriOf(nodes));
  const admin = client.db('admin');

  return {
    old,
    fresh,
    oldUri: uriOf(old),
    freshUri: uriOf(fresh),

    /** Changes the members as `rs.reconfig` does, and resolves when a majority has the new configuration. */
    async reconfigure(change: (members: readonly MemberConfig[]) => readonly MemberConfig[]): Promise<void> {
      const { config } = await admin.command({ replSetGetConfig: 1 });
      const next = { ...config, version: config.version + 1, members: change(config.members) };
      await admin.command({ replSetReconfig: next, maxTimeMS: 20_000 });
    },

    /** The members by host, as the primary sees them. */
    async states(): Promise<ReadonlyMap<string, string>> {
      const status: Document = await admin.command({ replSetGetStatus: 1 }).catch(() => ({ members: [] }));
      return new Map(status.members.map((member: Document) => [member.name, member.stateStr]));
    },

    async stop() {
      await client.close();
      await Promise.all(nodes.map((node) => node.kill()));
      guardian.release();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export type TwoClusters = Awaited<ReturnType<typeof startTwoClusters>>;
