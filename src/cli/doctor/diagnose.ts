import { GatewayError, longSecrets, redact } from '../../errors.ts';
import { createModels } from '../../gateway/collections.ts';
import { databaseOf } from '../../mongo/collection.ts';
import { namingMissingRights, secretsOfUri } from '../../mongo/connection/open-failure.ts';
import { withTimeout } from '../../mongo/periodic.ts';
import { readSchemaRecord } from '../../mongo/schema/prepare-schema.ts';
import { type Configuration, describeProcesses, readDoctorSettings } from '../config/config.ts';
import type { Environment } from '../config/environment.ts';
import { withConnection } from '../database/database.ts';
import { type CheckContext, type Checks, type DatabaseContext, failed, ok, type Result, type Status } from './check.ts';
import { checkClock, checkDisk, checkReplicaSet, checkSealingKeys, checkWrites } from './database.ts';
import { checkIndexes, checkSchemaVersion } from './indexes.ts';
import { checkAddressGuard, checkConfiguration, checkMongoVersions, checkNode, diagnoseUpstreams } from './machine.ts';
import { backgroundWork, processChecks } from './work.ts';

export type DoctorFinding = Result & { readonly check: string };

/** What the checks have found, and the worst of it. */
export interface Diagnosis {
  readonly status: Exclude<Status, 'skipped'>;
  readonly findings: readonly DoctorFinding[];
}

const checksOfMachine: Checks<CheckContext> = {
  configuration: checkConfiguration,
  processes: async ({ settings }) => [ok(`start serves with ${describeProcesses(settings)}`)],
  versions: checkNode,
  upstreams: diagnoseUpstreams,
  'address guard': checkAddressGuard,
};

const checksOfDatabase: Checks<DatabaseContext> = {
  'database version': checkMongoVersions,
  'replica set': checkReplicaSet,
  'schema version': checkSchemaVersion,
  indexes: checkIndexes,
  disk: checkDisk,
  writes: checkWrites,
  clock: checkClock,
  'sealing keys': checkSealingKeys,
  ...backgroundWork,
  ...processChecks,
};

/** How long one check may take. Milliseconds. */
const longestCheck = 20_000;
const unauthorized = 13;

/** A check that fails itself is a finding too. */
function ofError(error: unknown): Result {
  const { code, message } = error as { readonly code?: unknown; readonly message?: string };
  if (code !== unauthorized) return failed(`could not be checked: ${message}`, 'see the message');
  const remedy = 'grant the user of the URI the role clusterMonitor to have it checked';
  return { status: 'warning', message: 'the user of the URI must not read it', remedy };
}

async function runAll<Context>(checks: Checks<Context>, context: Context): Promise<DoctorFinding[]> {
  const running = Object.entries(checks).map(async ([check, run]) => {
    const results = await withTimeout(run(context), longestCheck).catch((error: unknown) => [ofError(error)]);
    return results.map((result) => ({ check, ...result }));
  });
  return (await Promise.all(running)).flat();
}

/** Whoever may not read the gateway's own record may read nothing: one finding says so, not one for each check. */
async function requireRights(read: () => Promise<unknown>): Promise<void> {
  await withTimeout(read(), longestCheck).catch((error: unknown) => {
    if (namingMissingRights(error) !== error) throw error;
  });
}

async function diagnoseDatabase(context: CheckContext): Promise<DoctorFinding[]> {
  return withConnection(context.settings, async (connection, prefix) => {
    const admin = databaseOf(connection, { name: 'admin' });
    const models = createModels(connection, prefix);
    await requireRights(() => readSchemaRecord(databaseOf(connection), prefix));
    return runAll(checksOfDatabase, { ...context, connection, db: databaseOf(connection), admin, models, prefix });
  });
}

/** What must not be printed, whatever an error message says. */
function secretsOf({ mongodbUri = '', secretKeys = [], upstreams = [], options }: Configuration): readonly string[] {
  const ofUpstreams = upstreams.flatMap(({ apiKey = '', headers = {} }) => [apiKey, ...Object.values(headers)]);
  const proxies = [options.deliveries?.proxy, ...upstreams.map(({ proxy }) => proxy)];
  const ofProxies = proxies.map((proxy) => (proxy ? new URL(proxy).password : ''));
  return [...secretsOfUri(mongodbUri), ...longSecrets([...secretKeys, ...ofUpstreams, ...ofProxies])];
}

function summary(findings: readonly DoctorFinding[], secrets: readonly string[]): Diagnosis {
  const has = (wanted: Status) => findings.some(({ status }) => status === wanted);
  const status = has('failed') ? 'failed' : has('warning') ? 'warning' : 'ok';
  return { status, findings: findings.map((one) => ({ ...one, message: redact(one.message, secrets) })) };
}

/** Why the database could not be opened or used, and what to do where the error says so apart from its message. */
function unusable(error: Error): DoctorFinding {
  const { problem, remedy } = error instanceof GatewayError ? error.details : {};
  const isApart = typeof problem === 'string' && typeof remedy === 'string';
  const result = isApart
    ? failed(`${(error as GatewayError).param}: ${problem}`, remedy)
    : failed(error.message, 'see the message');
  return { check: 'database', ...result };
}

/** Checks a gateway's configuration, database and upstreams. Changes nothing. @param now @default this machine's clock */
export async function diagnose(env: Environment, now: () => number = Date.now): Promise<Diagnosis> {
  let settings: Configuration;
  try {
    settings = readDoctorSettings(env);
  } catch (error) {
    const { message } = error as Error;
    return summary([{ check: 'configuration', ...failed(message, 'set the variable as the message says') }], []);
  }
  const context = { settings, now };
  const [ofMachine, ofDatabase] = await Promise.all([
    runAll(checksOfMachine, context),
    diagnoseDatabase(context).catch((error: Error) => [unusable(error)]),
  ]);
  return summary([...ofMachine, ...ofDatabase], secretsOf(settings));
}
