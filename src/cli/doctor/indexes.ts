import { everyIndex } from '../../gateway/collections.ts';
import { dropIndexCommand, type FoundIndex, findIndexes, indexName } from '../../mongo/schema/indexes.ts';
import {
  howToMigrate,
  needsMigration,
  readSchemaRecord,
  requireCompatible,
  schemaVersion,
} from '../../mongo/schema/prepare-schema.ts';
import { type DatabaseContext, failed, ok, problemsOr, type Result, skipped, warning } from './check.ts';

const migrate = `run \`${howToMigrate}\``;

/** How often an index was used since when; nothing where this user must not know. */
async function usageOf({ db }: Pick<DatabaseContext, 'db'>, { collection, name }: FoundIndex): Promise<string> {
  const ofIndex = [{ $indexStats: {} }, { $match: { name } }];
  const [stats] = await db
    .collection(collection)
    .aggregate<{ accesses: { ops: number; since: Date } }>(ofIndex)
    .toArray()
    .catch(() => []);
  if (!stats) return '';
  const { ops, since } = stats.accesses;
  return `, used ${ops} times since ${since.toISOString()}`;
}

async function judge(context: Pick<DatabaseContext, 'db'>, index: FoundIndex): Promise<readonly Result[]> {
  const name = indexName(index);
  switch (index.state) {
    case 'missing':
      return [failed(`${name} is missing`, migrate)];
    case 'different':
      return [
        failed(`${name} has other fields or options than needed`, `run ${dropIndexCommand(index)}, then ${migrate}`),
      ];
    case 'altered': {
      const remedy = `if this is not intended, run ${dropIndexCommand(index)}, then ${migrate}`;
      return [warning(`${name} expires documents after another time than this version sets`, remedy)];
    }
    case 'building':
      return [warning(`${name} is being built`, 'wait until it is built')];
    case 'unknown': {
      const message = `${name} is not the gateway's${await usageOf(context, index)}; it makes writes slower`;
      return [warning(message, `if it is not needed, run ${dropIndexCommand(index)}`)];
    }
    case 'present':
      return [];
  }
}

/** What is missing in a database that no gateway has prepared, as one: there is one thing to do. */
function ofUnprepared(missing: number, all: number): Result {
  const prepare = `${migrate}, or start a gateway without INDEXES=check, which does the same`;
  if (missing > 0)
    return failed(`${missing} of ${all} are missing: no gateway has prepared this database yet`, prepare);
  return warning(`all ${all} are there, but no gateway has recorded that it prepared this database`, prepare);
}

/** Indexes that are missing, different, being built, or not the gateway's. */
export async function checkIndexes(context: DatabaseContext): Promise<readonly Result[]> {
  const { db, models, prefix } = context;
  const [foundIndexes, record] = await Promise.all([
    findIndexes(db, everyIndex(models, prefix)),
    readSchemaRecord(db, prefix),
  ]);
  const isMissing = ({ state }: FoundIndex) => state === 'missing';
  const named = record === null ? foundIndexes.filter((index) => !isMissing(index)) : foundIndexes;
  const problems = (await Promise.all(named.map((index) => judge(context, index)))).flat();
  if (record === null) return [ofUnprepared(foundIndexes.filter(isMissing).length, foundIndexes.length), ...problems];
  return problemsOr(problems, `all ${foundIndexes.length} are there`);
}

/** The version of the package that has prepared the database. */
export async function checkSchemaVersion({ db, prefix }: DatabaseContext): Promise<readonly Result[]> {
  const record = await readSchemaRecord(db, prefix);
  if (record === null) return [skipped('no gateway has prepared this database yet; see indexes')];
  const { version, packageVersion } = record;
  const prepared = `express-model-gateway ${packageVersion} has prepared the database (schema version ${version})`;
  try {
    requireCompatible(record);
  } catch {
    return [failed(`${prepared}, and this one must not run beside it`, `run ${packageVersion} or a newer version`)];
  }
  if (needsMigration(record)) return [warning(`${prepared}, and this one needs ${schemaVersion}`, migrate)];
  return [ok(prepared)];
}
