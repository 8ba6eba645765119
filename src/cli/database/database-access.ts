import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GatewayError } from '../../errors.ts';
import { namingMissingRights } from '../../mongo/connection/open-failure.ts';
import { orAllowStandalone } from '../../mongo/connection/replica-set.ts';
import type { Configuration } from '../config/config.ts';
import type { DatabaseSettings } from '../config/database-settings.ts';
import { runningRecord } from '../mongo/record.ts';

function settingsPath(dataDir: string): string {
  return join(dataDir, 'settings.json');
}

/** Keeps the options of the running gateway; those of a command would otherwise decide, for example, how often it retries. */
export async function writeSettings(dataDir: string, options: Configuration['options']): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  await writeFile(settingsPath(dataDir), `${JSON.stringify(options)}\n`, { mode: 0o600 });
}

/** The options of the running gateway; `undefined` where they were not kept. */
async function readSettings(dataDir: string): Promise<Configuration['options'] | undefined> {
  const text = await readFile(settingsPath(dataDir), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : (JSON.parse(text) as Configuration['options']);
}

/**
 * Where the database of a gateway is, and the options that the gateway has.
 * @throws GatewayError `invalid_options` when no gateway runs on `dataDir`
 */
export async function locateDatabase({
  dataDir,
  mongodbUri,
  options,
}: DatabaseSettings): Promise<{ uri: string; options: Configuration['options'] }> {
  if (mongodbUri) return { uri: mongodbUri, options };
  const running = await runningRecord(dataDir);
  if (!running) {
    const problem = `no gateway is running with ${dataDir}`;
    const remedy = 'start one (npm start), or set DATA_DIR or MONGODB_URI as it has them';
    const details = { problem, remedy };
    throw new GatewayError('invalid_options', `DATA_DIR: ${problem}; ${remedy}`, { param: 'DATA_DIR', details });
  }
  return { uri: running.uri, options: (await readSettings(dataDir)) ?? options };
}

/** The same error with the variable that leads to the database, where it is about opening it or about the rights to use it. */
export function namingDatabase(thrown: unknown, { mongodbUri }: Pick<DatabaseSettings, 'mongodbUri'>): unknown {
  const error = namingMissingRights(thrown);
  if (!(error instanceof GatewayError) || error.param !== 'mongo') return error;
  const variable = mongodbUri ? 'MONGODB_URI' : 'DATA_DIR';
  const message = error.message.replace(/^mongo/, variable).replace(orAllowStandalone, '');
  return new GatewayError(error.code, message, { param: variable, details: error.details, cause: error });
}
