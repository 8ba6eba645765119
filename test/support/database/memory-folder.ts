import { statfs } from 'node:fs/promises';

const folder = '/dev/shm';
/** What the databases of a run may come to, with room to spare. Bytes. */
const enough = 4 * 1024 ** 3;

/**
 * A folder in memory, where the machine has one with room: each test makes a database of its own, and on a disk half of the
 * time would go into waiting for its files. `undefined` stands for the system's folder.
 */
export async function memoryFolder(): Promise<string | undefined> {
  const found = await statfs(folder).catch(() => undefined);
  const room = found ? found.bavail * found.bsize : 0;
  return Math.min(room, process.availableMemory()) > enough ? folder : undefined;
}
