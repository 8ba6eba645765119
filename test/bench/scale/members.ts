import { readFile } from 'node:fs/promises';
import mongoose, { type Connection } from 'mongoose';
import type { Setup } from '../deliveries/setup.ts';
import { cpuOf } from '../deliveries/usage.ts';

/** What the members of a replica set have used so far. */
interface MembersUsage {
  /** CPU time. Milliseconds. */
  readonly primaryCpu: number;
  /** Of one secondary, on average. */
  readonly secondaryCpu: number;
  /** What the primary was asked, by its clients and by the secondaries. */
  readonly requests: number;
  /** What it did for them: an insert of many documents counts as many. */
  readonly operations: number;
  /** Bytes. */
  readonly networkIn: number;
  readonly networkOut: number;
  readonly journalBytes: number;
  readonly dataBytes: number;
  readonly diskBytes: number;
}

/** The members of a setup's replica set, each by a connection of its own. */
export interface Members {
  /** Writes what is in memory to the data files first, so that each measurement pays for what it has changed. */
  usage(): Promise<MembersUsage>;
  /** Of the setup's database on the primary: data, indexes and files. Bytes. */
  databaseSize(): Promise<number>;
  /** Of all mongod together. Bytes. */
  residentMemory(): Promise<number>;
  close(): Promise<void>;
}

interface Member {
  readonly pid: number;
  readonly admin: Connection;
}

const sum = (values: readonly number[]) => values.reduce((before, value) => before + value, 0);

async function openMember(uri: string, { host, pid }: { host: string; pid: number }): Promise<Member> {
  const url = new URL(uri.replace(/@[^/]+\//, `@${host}/`));
  url.searchParams.delete('replicaSet');
  url.searchParams.set('directConnection', 'true');
  const admin = await mongoose.createConnection(url.href, { heartbeatFrequencyMS: 60_000 }).asPromise();
  return { pid, admin };
}

/** @returns bytes */
async function residentOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1_024;
}

export async function openMembers({ mongo, connection }: Setup): Promise<Members> {
  const members = await Promise.all(mongo.nodes.map((node) => openMember(mongo.uri, node)));
  const ask = ({ admin }: Member, command: object) => admin.db?.admin().command({ ...command });
  const states = await Promise.all(members.map((member) => ask(member, { hello: 1 })));
  const primary = members[states.findIndex((state) => state?.isWritablePrimary)];
  if (!primary) throw new Error('none of the members is primary');
  const secondaries = members.filter((member) => member !== primary);

  return {
    async usage() {
      for (const member of members) await ask(member, { fsync: 1 });
      const status = await ask(primary, { serverStatus: 1 });
      if (!status?.repl?.isWritablePrimary) throw new Error('another member has become primary');
      const { insert, query, update, delete: removed, command, getmore } = status.opcounters;
      const stats = await connection.db?.command({ dbStats: 1 });
      const cpus = await Promise.all(secondaries.map(({ pid }) => cpuOf(pid)));
      return {
        primaryCpu: await cpuOf(primary.pid),
        secondaryCpu: sum(cpus) / Math.max(1, cpus.length),
        requests: status.network.numRequests,
        operations: insert + query + update + removed + command + getmore,
        networkIn: status.network.bytesIn,
        networkOut: status.network.bytesOut,
        journalBytes: status.wiredTiger.log['log bytes written'],
        dataBytes: status.wiredTiger['block-manager']['bytes written'],
        diskBytes: stats?.totalSize,
      };
    },
    async databaseSize() {
      const stats = await connection.db?.command({ dbStats: 1 });
      return stats?.dataSize + stats?.indexSize + stats?.storageSize;
    },
    residentMemory: async () => sum(await Promise.all(members.map(({ pid }) => residentOf(pid)))),
    async close() {
      await Promise.all(members.map(({ admin }) => admin.close()));
    },
  };
}
