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

/** Where the control groups of a controller say what they leave: the files of version 2 and of version 1, as cgroups(7) names them. */
const limits = {
  cores: {
    controller: 'cpu',
    unified(group: string) {
      const [quota, period] = read(group, 'cpu.max').split(' ');
      return [Number(quota) / Number(period)];
    },
    version1: (group: string) => [Number(read(group, 'cpu.cfs_quota_us')) / Number(read(group, 'cpu.cfs_period_us'))],
  },
  memory: {
    controller: 'memory',
    unified: (group: string) => ['memory.max', 'memory.high'].map((name) => Number(read(group, name))),
    version1: (group: string) => [Number(read(group, 'memory.limit_in_bytes'))],
  },
} as const;

/**
 * What the control groups of this process leave it: cores, a part of a core included, and memory; `Infinity` without a limit. Linux alone has them.
 * `os.availableParallelism` of Node 20 counts the cores of the whole machine in a container, and `process.constrainedMemory` reads the process's own group
 * alone. The groups above limit it too, and a container may see its own group at the root.
 * @param root the folder that has `proc` and `sys`. @default /
 */
export function limitsOfControlGroups(root = '/'): Machine {
  const groups = read(root, 'proc/self/cgroup').split('\n');
  function least({ controller, unified, version1 }: (typeof limits)[keyof typeof limits]): number {
    const found = groups.flatMap((line) => {
      const [, controllers = '', path = '/'] = line.split(':');
      const isUnified = controllers === '';
      if (!isUnified && !controllers.split(',').includes(controller)) return [];
      const folder = join(root, 'sys/fs/cgroup', isUnified ? '' : controller);
      return upwards(path).flatMap((group) => (isUnified ? unified : version1)(join(folder, group)));
    });
    // 'max', -1 and a file that is not there are no limit
    return Math.min(...found.filter((limit) => limit > 0));
  }
  return { cores: least(limits.cores), memory: least(limits.memory) };
}

/** What this process may use, within the limits of its control groups. */
export function readMachine(): Machine {
  const { cores, memory } = limitsOfControlGroups();
  return { cores: Math.min(availableParallelism(), cores), memory: Math.min(totalmem(), memory) };
}

/** What one process takes under load, with as much again for its bodies. MiB. */
const memoryOfProcess = 256;

/** The most that WORKERS takes. */
export const maxProcesses = 256;

/**
 * How many processes `WORKERS=auto` starts, and why so many: one for each whole core, as far as the memory and the limit of WORKERS go,
 * and at least one.
 */
export function processesFor({ cores, memory }: Machine): { readonly count: number; readonly reason: string } {
  const wholeCores = Math.max(1, Math.floor(cores));
  const mebibytes = Math.floor(memory / 2 ** 20);
  const inMemory = Math.floor(mebibytes / memoryOfProcess);
  const count = Math.max(1, Math.min(wholeCores, inMemory, maxProcesses));
  const bound =
    inMemory < maxProcesses
      ? `${mebibytes} MiB of memory for processes that take ${memoryOfProcess} MiB each`
      : `no more than ${maxProcesses} processes`;
  const because = count < wholeCores ? `, and ${bound}` : '';
  return { count, reason: `${wholeCores} core${wholeCores === 1 ? '' : 's'}${because}` };
}
