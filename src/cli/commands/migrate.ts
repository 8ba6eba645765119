import { Command } from 'commander';
import type { Terminal } from '../terminal/terminal.ts';

interface Flags {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const help = `
Builds the indexes that are missing, and records for which version of the gateway the database is prepared. It removes
nothing, and may run beside gateways and again. Gateways that start with INDEXES=check need it before a new version.

Works on MONGODB_URI with COLLECTION_PREFIX, or on the embedded database found through DATA_DIR while its gateway runs.

Examples:
  $ MONGODB_URI=mongodb://db1,db2,db3/gateway express-model-gateway migrate --dry-run
  $ MONGODB_URI=mongodb://db1,db2,db3/gateway express-model-gateway migrate
`;

/** `migrate`: prepares the database for this version. */
export function migrateCommand(terminal: Terminal): Command {
  return new Command('migrate')
    .description('build missing indexes, and prepare the database for this version')
    .option('--dry-run', 'only say what would be built')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', help)
    .action(async ({ dryRun = false, json = false }: Flags) => {
      const { migrateStored } = await import('../database/stored-schema.ts');
      const { built, from, to, packageVersion } = await migrateStored(terminal.env, dryRun);
      if (json) return terminal.print(JSON.stringify({ dry_run: dryRun, built, from, to }));
      for (const name of built) terminal.print(`${dryRun ? 'Would build' : 'Built'}: ${name}`);
      if (built.length === 0) terminal.print('Indexes: nothing is missing');
      const change = from === to ? `${to}` : `${from ?? 'none'} -> ${to}`;
      terminal.print(`Schema version: ${change} (express-model-gateway ${packageVersion})`);
    });
}
