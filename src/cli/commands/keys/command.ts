import { Command, InvalidArgumentError, Option } from 'commander';
import type { Schemas } from '../../client/api.ts';
import { apiAction, apiCommands, databaseOption, examples } from '../../client/api-command.ts';
import { createShow, type GatewayOptions } from '../../client/context.ts';
import { several } from '../../client/flags.ts';
import { createStoredKey, listStoredKeys, revokeStoredKey, updateStoredKey } from '../../database/stored-keys.ts';
import { wrongUse } from '../../terminal/command-failure.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { budgetMeaning, readBudgets } from '../accounts/budget-option.ts';
import { createKey, keyLines, listKeys, newKeyLines, revokeKey, updatedLines, updateKey } from './keys.ts';
import { readScopes, scopeNames, usualScopes } from './scopes.ts';

interface OwnerOptions extends GatewayOptions {
  /** Absent: the account of the API key. */
  readonly user?: string;
  readonly database?: true;
}

interface CreateOptions extends OwnerOptions {
  readonly name: string;
  readonly scope: Schemas['Scope'][];
  readonly model?: string[];
  readonly expires?: Date;
  readonly budget?: Schemas['Budget'][];
}

interface UpdateOptions extends OwnerOptions {
  /** `false`: none. */
  readonly budget?: Schemas['Budget'][] | false;
}

function readMoment(text: string): Date {
  const moment = new Date(text);
  if (!Number.isNaN(moment.getTime())) return moment;
  throw new InvalidArgumentError('It must be a moment such as 2027-01-01T00:00:00Z.');
}

function keyCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--user <account>', 'of this account; needs a key with the scope admin, or --database')
    .addOption(databaseOption());
}

/** The account that a command works for in the database. */
function inDatabase({ user }: OwnerOptions): string {
  if (user !== undefined) return user;
  throw wrongUse('--database needs --user: there is no key that would say whose keys these are.');
}

function createCommand(terminal: Terminal): Command {
  return keyCommand('create', 'make a key and show it this once')
    .addOption(new Option('--name <name>', 'what the key is for').default('', 'no name'))
    .addOption(
      new Option('--scope <scope>', `what it may be used for: ${scopeNames.join(', ')}; may be repeated`)
        .argParser(readScopes)
        .default(usualScopes, usualScopes.join(', ')),
    )
    .option('--model <model>', 'the only models it may call, may be repeated; any when it is left out', several)
    .option('--expires <moment>', 'when it ends, such as 2027-01-01T00:00:00Z; never when it is left out', readMoment)
    .option('--budget <budget>', budgetMeaning, readBudgets)
    .addHelpText(
      'after',
      examples(
        'keys create --name "chat server" --scope models --model gpt-5-mini',
        'keys create --name trial --budget day:requests=100 --budget total:credits=5',
        'keys create --database --user usr_1',
      ),
    )
    .action(async (options: CreateOptions, command: Command) => {
      const { name, scope, model: models, expires, budget: budgets } = options;
      if (options.database) {
        const input = {
          userId: inDatabase(options),
          name,
          scopes: scope,
          ...(models && { models }),
          ...(budgets && { budgets }),
          ...(expires && { expiresAt: expires }),
        };
        return createShow(terminal, options.json ?? false)(await createStoredKey(terminal.env, input), newKeyLines);
      }
      const body = {
        name,
        scopes: scope,
        ...(models && { models }),
        ...(budgets && { budgets }),
        ...(expires && { expires_at: expires.toISOString() }),
      };
      await apiAction(terminal, (context) => createKey(context, body, options.user))(command);
    });
}

function listCommand(terminal: Terminal): Command {
  return keyCommand('list', 'all keys, oldest first, those that have ended too')
    .addHelpText('after', examples('keys list', 'keys list --user usr_2', 'keys list --database --user usr_1'))
    .action(async (options: OwnerOptions, command: Command) => {
      if (!options.database) return apiAction(terminal, (context) => listKeys(context, options.user))(command);
      const keys = await listStoredKeys(terminal.env, inDatabase(options));
      createShow(terminal, options.json ?? false)(keys, keyLines);
    });
}

function updateCommand(terminal: Terminal): Command {
  return keyCommand('update', 'change the budgets of a key, everywhere within a second')
    .argument('<key>', 'its id, key_…')
    .option('--budget <budget>', budgetMeaning, readBudgets)
    .option('--no-budget', 'no budgets any more')
    .addHelpText(
      'after',
      examples(
        'keys update key_01kaj3m5x2f7q9w4n8r1t6b0zd --budget month:tokens=1000000,credits=50',
        'keys update key_01kaj3m5x2f7q9w4n8r1t6b0zd --no-budget',
      ),
    )
    .action(async (id: string, options: UpdateOptions, command: Command) => {
      const { budget, user } = options;
      if (budget === undefined) throw wrongUse('Say --budget or --no-budget.');
      const body = { budgets: budget || [] };
      if (!options.database) return apiAction(terminal, (context) => updateKey(context, id, body, user))(command);
      const updated = await updateStoredKey(terminal.env, id, inDatabase(options), body.budgets);
      createShow(terminal, options.json ?? false)(updated, updatedLines);
    });
}

function revokeCommand(terminal: Terminal): Command {
  return keyCommand('revoke', 'make a key useless, everywhere within a second')
    .argument('<key>', 'its id, key_…')
    .addHelpText('after', examples('keys revoke key_01kaj3m5x2f7q9w4n8r1t6b0zd'))
    .action(async (id: string, options: OwnerOptions, command: Command) => {
      if (!options.database) return apiAction(terminal, (context) => revokeKey(context, id, options.user))(command);
      const revoked = await revokeStoredKey(terminal.env, id, inDatabase(options));
      createShow(terminal, options.json ?? false)(revoked, (body) => [`Revoked ${body.id}`]);
    });
}

/** `keys`: API keys, one's own or another account's. */
export function keysCommand(terminal: Terminal): Command {
  return apiCommands('keys', 'create, list, update and revoke API keys', [
    createCommand(terminal),
    listCommand(terminal),
    updateCommand(terminal),
    revokeCommand(terminal),
  ]);
}
