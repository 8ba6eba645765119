import { readVersion } from '../../../version.ts';
import { type CheckContext, type DatabaseContext, ok, type Result, warning } from '../check.ts';

const oldestNode = [20, 19] as const;
/** The tests run on this and newer versions. */
const oldestMongod = [6, 0] as const;

function isOlderVersion(version: string, [major, minor]: readonly [number, number]): boolean {
  const [a = 0, b = 0] = version.replace(/^v/, '').split('.').map(Number);
  return a < major || (a === major && b < minor);
}

/** Node and the package itself. @param version of Node, as `process.version` has it */
export function checkNode(_: CheckContext, version = process.version): readonly Result[] {
  if (isOlderVersion(version, oldestNode)) {
    return [warning(`Node ${version} is older than ${oldestNode.join('.')}`, 'update Node')];
  }
  return [ok(`express-model-gateway ${readVersion()}, Node ${version}`)];
}

export async function checkMongoVersions({
  admin,
  connection,
}: Pick<DatabaseContext, 'admin' | 'connection'>): Promise<readonly Result[]> {
  const { version } = await admin.command({ buildInfo: 1 });
  if (isOlderVersion(version, oldestMongod)) {
    const message = `mongod ${version} is older than ${oldestMongod.join('.')}, the oldest that is tested`;
    return [warning(message, 'update MongoDB')];
  }
  return [ok(`mongod ${version}, mongoose ${connection.base.version}`)];
}
