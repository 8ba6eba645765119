import { randomBytes } from 'node:crypto';
import { chmod, link, mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** A key of 32 random bytes, as SECRET_KEYS takes it. */
export function newSecretKey(): string {
  return `k1:${randomBytes(32).toString('base64')}`;
}

/** Written whole under another name first: a key cut short, or two keys made at once, would lose every secret. */
async function createKey(path: string): Promise<void> {
  const unfinished = `${path}.${randomBytes(4).toString('hex')}`;
  const file = await open(unfinished, 'wx', 0o600);
  try {
    await file.writeFile(`${newSecretKey()}\n`);
    await file.sync();
    await file.close();
    await link(unfinished, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(unfinished, { force: true });
  }
}

async function keepToOwner(path: string): Promise<void> {
  const { mode } = await stat(path);
  if ((mode & 0o077) !== 0) await chmod(path, 0o600);
}

/**
 * The keys in `<dataDir>/secret.key`, one a line, the first of which seals; makes the file, readable by its owner alone,
 * where there is none.
 */
export async function loadSecretKeys(dataDir: string): Promise<readonly string[]> {
  const path = join(dataDir, 'secret.key');
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const exists = await stat(path).catch(() => undefined);
  if (!exists) await createKey(path);
  await keepToOwner(path);
  return (await readFile(path, 'utf8')).split('\n').filter(Boolean);
}
