import { randomBytes } from 'node:crypto';
import { chmod, link, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';

/**
 * Writes a file under another name first, so that it is there whole or not at all.
 * @param moveInto gives it its name. @default replaces the file that has it
 */
export async function writeWhole(
  path: string,
  content: string | Buffer,
  mode = 0o600,
  moveInto = rename,
): Promise<void> {
  const unfinished = `${path}.${randomBytes(4).toString('hex')}`;
  try {
    await writeFile(unfinished, content, { mode, flag: 'wx', flush: true });
    await moveInto(unfinished, path);
  } finally {
    await rm(unfinished, { force: true });
  }
}

/**
 * Removes the permissions of everybody but the owner from a file or folder.
 * @throws Error when it belongs to another user
 */
export async function keepToOwner(path: string): Promise<void> {
  const { mode } = await stat(path);
  if ((mode & 0o077) === 0) return;
  await chmod(path, mode & 0o700).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPERM') throw error;
    const message = `${path} belongs to another user, and others may read it; give it to the user of this process (chown), or set another DATA_DIR`;
    throw new Error(message, { cause: error });
  });
}

/** The content of a file that only its owner may read. Where there is none, it is created with what `make` returns. */
export async function loadPrivateFile(path: string, make: () => string): Promise<string> {
  const exists = await stat(path).catch(() => undefined);
  if (!exists) {
    // of two that are created at the same time, the first one stays: another secret would lock its owner out
    await writeWhole(path, make(), 0o600, link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
  await keepToOwner(path);
  return readFile(path, 'utf8');
}

/**
 * Makes sure that no other user can change a file or folder from which a program is run.
 * @throws Error when it belongs to another user, or others cannot be kept from writing to it
 */
export async function keepFromOthers(path: string): Promise<void> {
  const me = process.getuid?.();
  if (me === undefined) return;
  const { uid, mode } = await stat(path);
  if (uid !== me && uid !== 0) throw new Error(`${path} belongs to another user, who could put any program there`);
  if ((mode & 0o022) !== 0) await chmod(path, mode & 0o755);
}
