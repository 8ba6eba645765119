import { Command } from 'commander';
import { readDatabaseSettings } from '../config/config.ts';
import type { Terminal } from '../terminal/terminal.ts';

const help = `
Builds the indexes that are missing, and records for which version of the gateway the database is prepared. It may run
beside gateways and again. Gateways that start with INDEXES=check need it before a new version.

It removes no data.

Works on MONGODB_URI with COLLECTION_PREFIX, or on the embedded database found through DATA_DIR while its gateway runs.

Examples:
  $ MONGODB_URI=mongodb://db1,db2,db3/gateway express-model-gateway migrate --dry-run
  $ MONGODB_URI=mongodb://db1,db2,db3/gateway express-model-gateway migrate
`;

export function migrateCommand(terminal: Terminal): Command {
  return new Command('migrate')
    .description('build missing indexes, and prepare the database for this version')
    .option('--dry-run', 'only say what would be built')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', help)
    .action(async ({ dryRun = false, json = false }: { dryRun?: boolean; json?: boolean }) => {
      const { migrate, planMigration } = await import('../../gateway/migrate.ts');
      const { withConnection } = await import('../database/database.ts');
      const { print, printNote } = terminal;
      const result = await withConnection(readDatabaseSettings(terminal.env), async (connection, prefix) =>
        dryRun ? await planMigration(connection, prefix) : await migrate(connection, prefix, { info: printNote }),
      );
      const { from, to, packageVersion } = result;
      const [done, indexes] = 'built' in result ? ['Built', result.built] : ['Would build', result.missing];
      if (json) return print(JSON.stringify({ dry_run: dryRun, [dryRun ? 'missing' : 'built']: indexes, from, to }));
      for (const name of indexes) print(`${done}: ${name}`);
      if (indexes.length === 0) print('Indexes: nothing is missing');
      const change = from === to ? `${to}` : `${from ?? 'none'} -> ${to}`;
      print(`Schema version: ${change} (express-model-gateway ${packageVersion})`);
    });
}
