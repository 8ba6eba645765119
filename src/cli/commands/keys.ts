import { type Command, Option } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, databaseOption, subject } from '../client/api-command.ts';
import { several, severalOf, take, toDate } from '../client/flags.ts';
import { gather } from '../client/pages.ts';
import { createStoredKey, listStoredKeys, revokeStoredKey, updateStoredKey } from '../database/stored.ts';
import { wrongUse } from '../terminal/command-failure.ts';
import { type Cell, type Column, listLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { localTime, relative } from '../terminal/text.ts';
import { budgetMeaning, budgetsText, readBudgets } from './budgets.ts';

export function keysCommand(terminal: Terminal): Command {
  return subject('keys', 'create, list, update and revoke API keys', [
    createCommand(terminal),
    keyCommand(terminal, 'list', 'all keys, oldest first, those that have ended too')
      .examples('keys list', 'keys list --user usr_2', 'keys list --database --user usr_1')
      .showsEither<[OwnerOptions], { data: Key[] }>(
        (env, options) => listStoredKeys(env, inDatabase(options)),
        async ({ api }, { user }) => ({
          data: await gather(Number.POSITIVE_INFINITY, (query) =>
            dataFrom<Schemas['ApiKeyList']>(
              user === undefined
                ? api.GET('/v1/api_keys', { params: { query } })
                : api.GET('/v1/users/{user_id}/api_keys', { params: { path: { user_id: user }, query } }),
            ),
          ),
        }),
        listLines(columns, 'No keys.'),
      ),
    updateCommand(terminal),
    keyCommand(terminal, 'revoke', 'make a key useless, everywhere within a second')
      .argument('<key>', 'its id, key_…')
      .examples('keys revoke key_01kaj3m5x2f7q9w4n8r1t6b0zd')
      .showsEither<[string, OwnerOptions], Schemas['ApiKeyDeleted']>(
        (env, id, options) => revokeStoredKey(env, id, inDatabase(options)),
        ({ api }, id, { user }) =>
          user === undefined
            ? api.DELETE('/v1/api_keys/{id}', { params: { path: { id } } })
            : api.DELETE('/v1/users/{user_id}/api_keys/{id}', { params: { path: { user_id: user, id } } }),
        ({ id }) => [`Revoked ${id}`],
      ),
  ]);
}

interface OwnerOptions {
  /** Absent: the account of the API key. */
  readonly user?: string;
}

function keyCommand(terminal: Terminal, name: string, description: string): ApiCommand {
  return new ApiCommand(terminal, name, description)
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
  return keyCommand(terminal, 'create', 'make a key and show it this once')
    .addOption(new Option('--name <name>', 'what the key is for').default('', 'no name'))
    .addOption(
      new Option('--scope <scope>', `what it may be used for: ${scopeNames.join(', ')}; may be repeated`)
        // the first one replaces the defaults
        .argParser((text, before: readonly string[]) =>
          severalOf(scopeNames)(text, before === usualScopes ? [] : before),
        )
        .default(usualScopes, usualScopes.join(', ')),
    )
    .option('--model <model>', 'the only models it may call, may be repeated; any when it is left out', several)
    .option('--expires <moment>', 'when it ends, such as 2027-01-01T00:00:00Z; never when it is left out', readMoment)
    .option('--budget <budget>', budgetMeaning, readBudgets)
    .examples(
      'keys create --name "chat server" --scope models --model gpt-5-mini',
      'keys create --name trial --budget day:requests=100 --budget total:credits=5',
      'keys create --database --user usr_1',
    )
    .showsEither<[CreateOptions], Schemas['ApiKeyCreated']>(
      (env, { expires, ...options }) =>
        createStoredKey(env, {
          userId: inDatabase(options),
          ...fieldsOf(options),
          ...(expires && { expiresAt: expires }),
        }),
      ({ api }, { user, expires, ...options }) => {
        const body = { ...fieldsOf(options), ...(expires && { expires_at: expires.toISOString() }) };
        return user === undefined
          ? api.POST('/v1/api_keys', { body })
          : api.POST('/v1/users/{user_id}/api_keys', { params: { path: { user_id: user } }, body });
      },
      // `API key:` has its own line, as the start prints it
      ({ id, key }) => [`Key id: ${id}`, `API key: ${key}`],
    );
}

/** The fields that a new key has in the database as in the API. */
function fieldsOf({ name, scope: scopes, model: models, budget: budgets }: Omit<CreateOptions, 'expires'>) {
  return { name, scopes, ...(models && { models }), ...(budgets && { budgets }) };
}

const readMoment = take({ allowed: 'a moment such as 2027-01-01T00:00:00Z', read: toDate });

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

const usualScopes = scopeNames.filter((name) => scopes[name]);

type Key = Schemas['ApiKey'];

const columns: readonly Column<Key>[] = [
  { header: 'ID', cell: ({ id }) => id },
  { header: 'CREATED', cell: ({ created_at: created }) => localTime(created) },
  { header: 'LAST USED', cell: ({ last_used_at: used }, now) => (used ? relative(used, now) : 'never') },
  { header: 'STATE', cell: stateOf },
  { header: 'SCOPES', cell: ({ scopes }) => scopes.join(',') },
  { header: 'MODELS', cell: ({ models }) => models?.join(',') ?? 'any' },
  { header: 'BUDGETS', cell: ({ budgets }) => budgetsText(budgets) },
  { header: 'NAME', cell: ({ name }) => name },
];

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
  return keyCommand(terminal, 'update', 'change the budgets of a key, everywhere within a second')
    .argument('<key>', 'its id, key_…')
    .option('--budget <budget>', budgetMeaning, readBudgets)
    .option('--no-budget', 'no budgets any more')
    .examples(
      'keys update key_01kaj3m5x2f7q9w4n8r1t6b0zd --budget month:tokens=1000000,credits=50',
      'keys update key_01kaj3m5x2f7q9w4n8r1t6b0zd --no-budget',
    )
    .hook('preAction', (command) => {
      if (command.opts<UpdateOptions>().budget === undefined) throw wrongUse('Say --budget or --no-budget.');
    })
    .showsEither<[string, UpdateOptions], Key>(
      (env, id, { budget, ...options }) => updateStoredKey(env, id, inDatabase(options), budget || []),
      ({ api }, id, { budget, user }) => {
        const body = { budgets: budget || [] };
        return user === undefined
          ? api.PATCH('/v1/api_keys/{id}', { params: { path: { id } }, body })
          : api.PATCH('/v1/users/{user_id}/api_keys/{id}', { params: { path: { user_id: user, id } }, body });
      },
      ({ id, budgets }) => [`Updated ${id}; its budgets: ${budgetsText(budgets)}`],
    );
}
