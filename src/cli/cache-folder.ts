import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * The folder of what the command can have again, such as downloaded copies of mongod, shared by all projects of the user: among this
 * platform's caches (XDG on Linux).
 */
export function defaultCacheFolder(): string {
  const name = 'express-model-gateway';
  const { env, platform } = process;
  if (platform === 'darwin') return join(homedir(), 'Library', 'Caches', name);
  if (platform === 'win32') return join(env.LOCALAPPDATA ?? join(homedir(), 'AppData', 'Local'), name);
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), name);
}
