import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { loadPrivateFile } from '../private-file.ts';

/** A key of 32 random bytes, as SECRET_KEYS takes it. */
export function newSecretKey(): string {
  return `k1:${randomBytes(32).toString('base64')}`;
}

/**
 * The keys in `<dataDir>/secret.key`, one a line, the first of which seals; makes the file, readable by its owner alone,
 * where there is none.
 */
export async function loadSecretKeys(dataDir: string): Promise<readonly string[]> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const text = await loadPrivateFile(join(dataDir, 'secret.key'), () => `${newSecretKey()}\n`);
  return text.split('\n').filter(Boolean);
}
