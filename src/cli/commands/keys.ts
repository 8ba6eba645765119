import { Command, InvalidArgumentError, Option } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import {
  apiAction,
  apiCommands,
  type CommandContext,
  createShow,
  databaseOption,
  examples,
  type GatewayOptions,
} from '../client/api-command.ts';
import { several } from '../client/flags.ts';
import { gather } from '../client/pages.ts';
import { createStoredKey, listStoredKeys, revokeStoredKey, updateStoredKey } from '../database/stored.ts';
import { wrongUse } from '../terminal/command-failure.ts';
import { type Cell, type Column, tableLines } from '../terminal/table.ts';
import type { Paint, Terminal } from '../terminal/terminal.ts';
import { localTime, relative } from '../terminal/text.ts';
import { budgetMeaning, budgetsText, readBudgets } from './budgets.ts';

/** `keys`: API keys, one's own or another account's. */
export function keysCommand(terminal: Terminal): Command {
  return apiCommands('keys', 'create, list, update and revoke API keys', [
    createCommand(terminal),
    listCommand(terminal),
    updateCommand(terminal),
    revokeCommand(terminal),
  ]);
}

interface OwnerOptions extends GatewayOptions {
  /** Absent: the account of the API key. */
  readonly user?: string;
  readonly database?: true;
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

interface CreateOptions extends OwnerOptions {
  readonly name: string;
  readonly scope: Schemas['Scope'][];
  readonly model?: string[];
  readonly expires?: Date;
  readonly budget?: Schemas['Budget'][];
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

function readMoment(text: string): Date {
  const moment = new Date(text);
  if (!Number.isNaN(moment.getTime())) return moment;
  throw new InvalidArgumentError('It must be a moment such as 2027-01-01T00:00:00Z.');
}

type Scope = Schemas['Scope'];

/** Every scope, and whether a key has it by default. */
const scopes: Readonly<Record<Scope, boolean>> = {
  models: true,
  webhooks: true,
  keys: true,
  'events:publish': false,
  admin: false,
};

const scopeNames = Object.keys(scopes) as Scope[];

/** The scopes of a key by default. */
const usualScopes = scopeNames.filter((name) => scopes[name]);

/** Reads scopes, several with commas or one after another; the first one replaces the defaults. */
function readScopes(text: string, before: readonly string[]): readonly string[] {
  const names = several(text, before === usualScopes ? [] : before);
  if (names.every((name) => name in scopes)) return names;
  throw new InvalidArgumentError(`It must be some of ${scopeNames.join(', ')}.`);
}

/** @param user whose key; the caller's account by default. Another's needs the scope `admin`. */
async function createKey({ api, show }: CommandContext, body: Schemas['ApiKeyCreate'], user?: string): Promise<void> {
  const created =
    user === undefined
      ? api.POST('/v1/api_keys', { body })
      : api.POST('/v1/users/{user_id}/api_keys', { params: { path: { user_id: user } }, body });
  show(await dataFrom<Schemas['NewApiKey']>(created), newKeyLines);
}

/** A new key; `API key:` has its own line, as the start prints it. */
function newKeyLines({ id, key }: { id: string; key: string }): string[] {
  return [`Key id: ${id}`, `API key: ${key}`];
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

/** @param user whose keys; those of the caller's account by default */
async function listKeys({ api, show }: CommandContext, user?: string): Promise<void> {
  const all = await gather<Key>(Number.POSITIVE_INFINITY, (query) =>
    dataFrom<Schemas['ApiKeyList']>(
      user === undefined
        ? api.GET('/v1/api_keys', { params: { query } })
        : api.GET('/v1/users/{user_id}/api_keys', { params: { path: { user_id: user }, query } }),
    ),
  );
  show(all, keyLines);
}

type Key = Schemas['ApiKey'];

/** Keys as a person reads them. */
function keyLines({ data }: { data: readonly Key[] }, paint: Paint, now: number): string[] {
  return data.length > 0 ? tableLines(columns(now), data, paint) : ['No keys.'];
}

function columns(now: number): readonly Column<Key>[] {
  return [
    { header: 'ID', cell: ({ id }) => id },
    { header: 'CREATED', cell: ({ created_at: created }) => localTime(created) },
    { header: 'LAST USED', cell: ({ last_used_at: used }) => (used ? relative(used, now) : 'never') },
    { header: 'STATE', cell: (key) => stateOf(key, now) },
    { header: 'SCOPES', cell: ({ scopes }) => scopes.join(',') },
    { header: 'MODELS', cell: ({ models }) => models?.join(',') ?? 'any' },
    { header: 'BUDGETS', cell: ({ budgets }) => budgetsText(budgets) },
    { header: 'NAME', cell: ({ name }) => name },
  ];
}

function stateOf({ revoked_at: revoked, expires_at: expires }: Key, now: number): Cell {
  if (revoked) return { text: `revoked ${relative(revoked, now)}`, style: 'dim' };
  if (!expires) return { text: 'active', style: 'green' };
  if (Date.parse(expires) <= now) return { text: `ended ${relative(expires, now)}`, style: 'dim' };
  return { text: `ends ${relative(expires, now)}`, style: 'yellow' };
}

interface UpdateOptions extends OwnerOptions {
  /** `false`: none. */
  readonly budget?: Schemas['Budget'][] | false;
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

/** @param user whose key; that of the caller's account by default */
async function updateKey(
  { api, show }: CommandContext,
  id: string,
  body: Schemas['ApiKeyUpdate'],
  user?: string,
): Promise<void> {
  const updated =
    user === undefined
      ? api.PATCH('/v1/api_keys/{id}', { params: { path: { id } }, body })
      : api.PATCH('/v1/users/{user_id}/api_keys/{id}', { params: { path: { user_id: user, id } }, body });
  show(await dataFrom<Schemas['ApiKey']>(updated), updatedLines);
}

/** A changed key. */
function updatedLines({ id, budgets }: Key): string[] {
  return [`Updated ${id}; its budgets: ${budgetsText(budgets)}`];
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

/** @param user whose key; that of the caller's account by default */
async function revokeKey({ api, show }: CommandContext, id: string, user?: string): Promise<void> {
  const revoked =
    user === undefined
      ? api.DELETE('/v1/api_keys/{id}', { params: { path: { id } } })
      : api.DELETE('/v1/users/{user_id}/api_keys/{id}', { params: { path: { user_id: user, id } } });
  show(await dataFrom<Schemas['ApiKeyDeleted']>(revoked), (body) => [`Revoked ${body.id}`]);
}
