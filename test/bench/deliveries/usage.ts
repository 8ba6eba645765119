import { readFile } from 'node:fs/promises';
import type { Connection } from 'mongoose';

/** What a sender and its database have used so far. */
export interface Usage {
  /** CPU time of the sender. Milliseconds. */
  readonly cpu: number;
  /** CPU time of mongod. Milliseconds. */
  readonly mongod: number;
  /** Operations that mongod has done for its clients: an insert of many documents counts as many. */
  readonly operations: number;
  /** Requests that it has had, from its clients and its own monitor. */
  readonly requests: number;
}

/** What the kernel has counted so far. */
export interface KernelCounts {
  /** Of any kind, to sockets above all. */
  readonly writes: number;
  /** In these writes. */
  readonly bytes: number;
  /** How often main threads were woken. */
  readonly wakes: number;
}

/** A command that a process has sent to its database, and how often. */
export interface Sent {
  /** Such as `insert events`. */
  readonly command: string;
  /** The function and file of the package that it came from, where the stack tells. */
  readonly caller: string;
  readonly count: number;
}

/** Clock ticks, of which Linux counts 100 in a second whatever the machine. Milliseconds. */
const tick = 10;

/** CPU time that a process has used. Milliseconds. */
export async function cpuOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * tick;
}

/** The most resident memory that a process has had. Megabytes. */
export async function peakMemoryOf(pid: number): Promise<number> {
  const [, kilobytes] = /^VmHWM:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1_024;
}

/** What the mongod on this machine that a connection leads to has used; asking is an operation itself. */
export async function mongodUsage(connection: Connection): Promise<Pick<Usage, 'mongod' | 'operations' | 'requests'>> {
  const status = await connection.db?.admin().serverStatus();
  const { insert = 0, query = 0, update = 0, delete: removed = 0, command = 0, getmore = 0 } = status?.opcounters ?? {};
  return {
    mongod: await cpuOf(Number(status?.pid)),
    operations: insert + query + update + removed + command + getmore,
    requests: status?.network.numRequests ?? 0,
  };
}

/** Of several processes together. */
export async function kernelCountsOf(pids: readonly number[]): Promise<KernelCounts> {
  const counts = { writes: 0, bytes: 0, wakes: 0 };
  for (const pid of pids) {
    const io = await readFile(`/proc/${pid}/io`, 'utf8');
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    const read = (text: string, name: string) => Number(new RegExp(`^${name}:\\s*(\\d+)`, 'm').exec(text)?.[1]);
    counts.writes += read(io, 'syscw');
    counts.bytes += read(io, 'wchar');
    counts.wakes += read(status, 'voluntary_ctxt_switches');
  }
  return counts;
}
