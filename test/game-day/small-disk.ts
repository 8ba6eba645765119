import { execFile } from 'node:child_process';
import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** A disk that can be filled: a file system in memory of its own, where this machine lets us mount one. */
export interface SmallDisk {
  readonly path: string;
  readonly canFill: boolean;
  /** Takes all of it but this share of 1. Returns what gives it back. */
  fill(left: number): Promise<() => Promise<void>>;
  remove(): Promise<void>;
}

export async function createSmallDisk(size: string): Promise<SmallDisk> {
  const path = await mkdtemp(join(tmpdir(), 'game-day-'));
  const canFill = await run('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'game-day', path]).then(
    () => true,
    () => false,
  );
  return {
    path,
    canFill,
    async fill(left) {
      const { bavail, blocks, bsize } = await statfs(path);
      const file = join(path, 'filler');
      await run('fallocate', ['-l', String(Math.floor((bavail - blocks * left) * bsize)), file]);
      return () => rm(file);
    },
    async remove() {
      if (canFill) await run('umount', ['--lazy', path]);
      await rm(path, { recursive: true, force: true });
    },
  };
}
