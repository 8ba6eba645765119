import { randomBytes } from 'node:crypto';
import { chmod, link, open, readFile, rm, stat } from 'node:fs/promises';

/** Writes under another name first: half a secret, or two created at the same time, would lock the owner out. */
async function create(path: string, content: string): Promise<void> {
  const unfinished = `${path}.${randomBytes(4).toString('hex')}`;
  const file = await open(unfinished, 'wx', 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
    await file.close();
    await link(unfinished, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
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
  if (!exists) await create(path, make());
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
