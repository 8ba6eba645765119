import { readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { join } from 'node:path';

/** What the processes of one start may use. */
export interface Machine {
  readonly cores: number;
  /** Bytes. */
  readonly memory: number;
}

function read(...path: readonly string[]): string {
  try {
    return readFileSync(join(...path), 'utf8').trim();
  } catch {
    return '';
  }
}

/** A folder and all above it: `/a/b`, `/a`, `/`. */
function upwards(path: string): string[] {
  const names = path.split('/').filter(Boolean);
  return names.map((_, i) => `/${names.slice(0, names.length - i).join('/')}`).concat('/');
}

/**
 * The cores whose time the control groups of this process leave it, a part of a core included; `Infinity` without a limit. `os.availableParallelism`
 * of Node 20 counts the cores of the whole machine in a container, too. Linux alone has control groups: the files `cpu.max` (version 2) and
 * `cpu.cfs_quota_us` (version 1) of cgroups(7). A container may see its own group at the root alone, so each folder above counts as well.
 * @param root the folder that has `proc` and `sys`. @default /
 */
export function coresOfControlGroups(root = '/'): number {
  const groups = read(root, 'proc/self/cgroup').split('\n');
  const limits = groups.flatMap((line) => {
    const [, controllers = '', path = '/'] = line.split(':');
    const isUnified = controllers === '';
    if (!isUnified && !controllers.split(',').includes('cpu')) return [];
    const folder = join(root, 'sys/fs/cgroup', isUnified ? '' : 'cpu');
    return upwards(path).map((group) => {
      const [quota, period] = isUnified
        ? read(folder, group, 'cpu.max').split(' ')
        : [read(folder, group, 'cpu.cfs_quota_us'), read(folder, group, 'cpu.cfs_period_us')];
      const cores = Number(quota) / Number(period);
      return cores > 0 ? cores : Number.POSITIVE_INFINITY;
    });
  });
  return Math.min(Number.POSITIVE_INFINITY, ...limits);
}

/** What this process may use, within the limits of its control groups. */
export function readMachine(): Machine {
  return {
    cores: Math.min(availableParallelism(), coresOfControlGroups()),
    // Node gives 0 where nothing limits it
    memory: Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY),
  };
}

/** What one process takes under load, with as much again for its bodies. MiB. */
const memoryOfProcess = 256;

/** How many processes `WORKERS=auto` starts, and why so many. */
export interface ProcessCount {
  readonly count: number;
  readonly reason: string;
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** One process for each whole core, as far as the memory goes, and at least one. Pure. */
export function processesFor({ cores, memory }: Machine): ProcessCount {
  const wholeCores = Math.max(1, Math.floor(cores));
  const mebibytes = Math.floor(memory / 2 ** 20);
  const count = Math.max(1, Math.min(wholeCores, Math.floor(mebibytes / memoryOfProcess)));
  const inMemory = `, and ${mebibytes} MiB of memory for processes that take ${memoryOfProcess} MiB each`;
  return { count, reason: counted(wholeCores, 'core') + (count < wholeCores ? inMemory : '') };
}
