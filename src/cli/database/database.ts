import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { GatewayError, refuse } from '../../errors.ts';
import { createModelGateway, type ModelGateway } from '../../index.ts';
import { databaseOf } from '../../mongo/collection.ts';
import { type Database, openDatabase, orAllowStandalone } from '../../mongo/connection/connection.ts';
import { namingMissingRights } from '../../mongo/connection/open-failure.ts';
import { readSchemaRecord, retryUntilAvailable } from '../../mongo/schema/prepare-schema.ts';
import { areOptions, type Configuration, type DatabaseSettings } from '../config/config.ts';
import { loadSecretKeys, newSecretKey } from '../config/secret-key.ts';
import { runningRecord } from '../mongo/record.ts';

const defaultPrefix = 'gateway_';
/** Warnings about connections are about those of a host. */
const silent = { info() {}, warn() {}, error() {} };

/**
 * Connects to the database of a gateway, without a gateway, and closes the connection afterwards.
 * @param use gets the connection, and what stands before the names of collections
 * @throws GatewayError `invalid_options` when no gateway runs on `dataDir`, or the database cannot be opened or
 * used with the rights of the user; it names the variable. Whatever else `use` throws
 */
export async function withConnection<T>(
  settings: DatabaseSettings,
  use: (connection: Database['connection'], prefix: string) => Promise<T>,
): Promise<T> {
  const { uri, options } = await locateDatabase(settings);
  const open = () => openDatabase(uri, silent);
  return using(settings, open, ({ connection }) => use(connection, options.collectionPrefix ?? defaultPrefix));
}

/** Uses what is opened, and closes it afterwards. An error names the variable that leads to the database. */
async function using<Opened extends { close(): Promise<void> }, T>(
  settings: DatabaseSettings,
  open: () => Promise<Opened>,
  use: (opened: Opened) => Promise<T>,
): Promise<T> {
  try {
    const opened = await open();
    try {
      return await use(opened);
    } finally {
      await opened.close();
    }
  } catch (error) {
    throw namingDatabase(error, settings);
  }
}

/**
 * Uses the database of a gateway that runs in another process, and closes it afterwards. Builds indexes only in a database that was
 * never prepared: a command of a newer package must not migrate one that is in use.
 * @throws GatewayError `invalid_options` when there is no such gateway, its database cannot be opened or used, an older version
 * has prepared it, or another version keeps its options; and whatever else `use` throws
 */
export async function besideGateway<T>(
  settings: DatabaseSettings,
  use: (gateway: ModelGateway) => Promise<T>,
): Promise<T> {
  const { uri, options, areKept } = await locateDatabase(settings);
  const { dataDir, mongodbUri } = settings;
  if (areKept) checkKept(options, dataDir);
  // without SECRET_KEYS, a temporary key is enough for a MongoDB of your own that has no webhooks
  const secretKeys = settings.secretKeys ?? (mongodbUri ? [newSecretKey()] : await loadSecretKeys(dataDir));
  const indexes = (await isPrepared(settings)) ? ({ indexes: 'check' } as const) : {};
  return using(settings, () => createModelGateway({ mongo: uri, secretKeys, ...options, ...indexes }), use);
}

/** Whether a gateway or `migrate` has prepared the database. */
async function isPrepared(settings: DatabaseSettings): Promise<boolean> {
  return withConnection(settings, async (connection, prefix) => {
    const read = () => readSchemaRecord(databaseOf(connection), prefix);
    return (await retryUntilAvailable(read, { connection, logger: { info() {} } })) !== null;
  });
}

/**
 * Where the database of a gateway is, and the options that the gateway has.
 * @throws GatewayError `invalid_options` when no gateway runs on `dataDir`
 */
async function locateDatabase({ dataDir, mongodbUri, options }: DatabaseSettings) {
  if (mongodbUri) return { uri: mongodbUri, options, areKept: false };
  const running = await runningRecord(dataDir);
  if (!running) {
    const problem = `no gateway is running with ${dataDir}`;
    const remedy = 'start one (npm start), or set DATA_DIR or MONGODB_URI as it has them';
    const details = { problem, remedy };
    throw new GatewayError('invalid_options', `DATA_DIR: ${problem}; ${remedy}`, { param: 'DATA_DIR', details });
  }
  const kept = await readSettings(dataDir);
  return { uri: running.uri, options: kept ?? options, areKept: kept !== undefined };
}

const settingsPath = (dataDir: string) => join(dataDir, 'settings.json');

/** Keeps the options of the running gateway; those of a command would otherwise decide, for example, how often it retries. */
export async function writeSettings(dataDir: string, options: Configuration['options']): Promise<void> {
  // the commands make no requests, and there can be a password in these
  const { proxy: _, deliveries: { proxy: __, ...deliveries } = {}, ...kept } = options;
  await writeFile(settingsPath(dataDir), `${JSON.stringify({ ...kept, deliveries })}\n`, { mode: 0o600 });
}

/** The options of the running gateway; `undefined` where they were not kept. */
async function readSettings(dataDir: string): Promise<Configuration['options'] | undefined> {
  const text = await readFile(settingsPath(dataDir), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : (JSON.parse(text) as Configuration['options']);
}

/** @throws GatewayError where a gateway of another version runs, which has other options: nobody wrote them who uses the command */
function checkKept(options: Configuration['options'], dataDir: string): void {
  if (areOptions(options)) return;
  const problem = `the gateway that runs with ${dataDir} is of another version, and has other options`;
  refuse('invalid_options', 'DATA_DIR', `${problem}; restart it with this one`);
}

/** The same error with the variable that leads to the database, where it is about opening it or about the rights to use it. */
export function namingDatabase(thrown: unknown, { mongodbUri }: Pick<DatabaseSettings, 'mongodbUri'>): unknown {
  const error = namingMissingRights(thrown);
  if (!(error instanceof GatewayError) || error.param !== 'mongo') return error;
  const variable = mongodbUri ? 'MONGODB_URI' : 'DATA_DIR';
  const message = error.message.replace(/^mongo/, variable).replace(orAllowStandalone, '');
  return new GatewayError(error.code, message, { param: variable, details: error.details, cause: error });
}
