import type { Schemas } from '../client/api.ts';
import { take, toDate } from '../client/flags.ts';
import { type Rows, row, type Values } from '../client/operation-command.ts';
import { createStoredKey, listStoredKeys, revokeStoredKey, updateStoredKey } from '../database/stored.ts';
import { wrongUse } from '../terminal/command-failure.ts';
import { type Cell, tableOf } from '../terminal/table.ts';
import { localTime, relative } from '../terminal/text.ts';
import { budgetMeaning, budgetsText, readBudgets } from './budgets.ts';

type Key = Schemas['ApiKey'];
/** Absent: the account of the API key. */
type Owner = { readonly user_id?: string };
type OfKey = Owner & { readonly id: string };
/** `false`: none. */
type Budgets = { readonly budgets?: Schemas['Budget'][] | false };

/** The account that a command works for in the database. */
function inDatabase(user?: string): string {
  if (user !== undefined) return user;
  throw wrongUse('--database needs --user: there is no key that would say whose keys these are.');
}

function stateOf({ revoked_at: revoked, expires_at: expires }: Key, now: number): Cell {
  if (revoked) return { text: `revoked ${relative(revoked, now)}`, style: 'dim' };
  if (!expires) return { text: 'active', style: 'green' };
  if (Date.parse(expires) <= now) return { text: `ended ${relative(expires, now)}`, style: 'dim' };
  return { text: `ends ${relative(expires, now)}`, style: 'yellow' };
}

const readMoment = take({
  allowed: 'a moment such as 2027-01-01T00:00:00Z',
  read: (text) => toDate(text)?.toISOString(),
});

/** The budgets that replace a key's. */
function replaced({ budgets, ...values }: Budgets): Values {
  if (budgets === undefined) throw wrongUse('Say --budget or --no-budget.');
  return { ...values, budgets: budgets || [] };
}

export const keyRows: Rows = {
  create: row('createApiKey', {
    does: 'make a key and show it this once',
    ofUser: 'createUserApiKey',
    flags: {
      name: { meaning: 'what the key is for', usual: '' },
      scopes: {
        meaning: 'what it may be used for: models, webhooks, keys, events:publish, admin; may be repeated',
        usual: 'models, webhooks, keys',
      },
      models: { meaning: 'the only models it may call, may be repeated; any when it is left out' },
      expires_at: {
        flags: '--expires <moment>',
        meaning: 'when it ends, such as 2027-01-01T00:00:00Z; never when it is left out',
        read: readMoment,
      },
      budgets: { flags: '--budget <budget>', meaning: budgetMeaning, read: readBudgets },
    },
    examples: [
      'keys create --name "chat server" --scope models --model gpt-5-mini',
      'keys create --name trial --budget day:requests=100 --budget total:credits=5',
      'keys create --database --user usr_1',
    ],
    stored: (env, { user_id: user, expires_at: at, ...fields }: Owner & Schemas['ApiKeyCreate']) =>
      createStoredKey(env, { userId: inDatabase(user), ...fields, ...(at && { expiresAt: new Date(at) }) }),
    // `API key:` has its own line, as the start prints it
    lines: ({ id, key }) => [`Key id: ${id}`, `API key: ${key}`],
  }),
  list: row('listApiKeys', {
    does: 'all keys, oldest first, those that have ended too',
    ofUser: 'listUserApiKeys',
    isWhole: true,
    examples: ['keys list', 'keys list --user usr_2', 'keys list --database --user usr_1'],
    stored: (env, { user_id: user }: Owner) => listStoredKeys(env, inDatabase(user)),
    lines: tableOf<Key>(
      {
        id: 'id',
        created: ({ created_at: at }) => localTime(at),
        'last used': ({ last_used_at: at }, now) => (at ? relative(at, now) : 'never'),
        state: stateOf,
        scopes: ({ scopes }) => scopes.join(','),
        models: ({ models }) => models?.join(',') ?? 'any',
        budgets: ({ budgets }) => budgetsText(budgets),
        name: 'name',
      },
      'No keys.',
    ),
  }),
  update: row('updateApiKey', {
    does: 'change the budgets of a key, everywhere within a second',
    ofUser: 'updateUserApiKey',
    flags: {
      budgets: { flags: '--budget <budget>', meaning: budgetMeaning, read: readBudgets, isOptional: true },
      none: { flags: '--no-budget', meaning: 'no budgets any more' },
    },
    examples: [
      'keys update key_01kaj3m5x2f7q9w4n8r1t6b0zd --budget month:tokens=1000000,credits=50',
      'keys update key_01kaj3m5x2f7q9w4n8r1t6b0zd --no-budget',
    ],
    prepare: replaced,
    stored: (env, { id, budgets, user_id: user }: OfKey & { readonly budgets: Schemas['Budget'][] }) =>
      updateStoredKey(env, id, inDatabase(user), budgets),
    lines: ({ id, budgets }) => [`Updated ${id}; its budgets: ${budgetsText(budgets)}`],
  }),
  revoke: row('deleteApiKey', {
    does: 'make a key useless, everywhere within a second',
    ofUser: 'deleteUserApiKey',
    stored: (env, { id, user_id: user }: OfKey) => revokeStoredKey(env, id, inDatabase(user)),
    lines: ({ id }) => [`Revoked ${id}`],
  }),
};
