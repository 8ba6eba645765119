import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where this user's caches live on this platform, by its own convention (XDG base directories on Linux). */
function userCaches(env: NodeJS.ProcessEnv, platform: NodeJS.Platform): string {
  if (platform === 'darwin') return join(homedir(), 'Library', 'Caches');
  if (platform === 'win32') return env.LOCALAPPDATA ?? join(homedir(), 'AppData', 'Local');
  return env.XDG_CACHE_HOME || join(homedir(), '.cache');
}

/** The folder that downloaded copies of mongod are kept in, shared by all projects of the user. */
export function defaultCacheFolder(env: NodeJS.ProcessEnv = process.env, platform = process.platform): string {
  return join(userCaches(env, platform), 'express-model-gateway');
}
