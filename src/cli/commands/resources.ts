import { Command } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import type { CommandContext } from '../client/api-command.ts';
import { severalOf } from '../client/flags.ts';
import {
  operationCommand,
  type Row,
  type Rows,
  request,
  row,
  saveTo,
  type Values,
} from '../client/operation-command.ts';
import { operationOf } from '../client/operations.ts';
import { detailsOf, tableOf } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { figure, momentOf, printable, relative } from '../terminal/text.ts';
import { budgetLines, budgetMeaning, budgetsText, readBudgets } from './budgets.ts';
import { deliveryRows } from './deliveries.ts';
import { eventRows } from './events.ts';
import { keyRows } from './keys.ts';
import { accountLines, accountsLines, statusLines, usageLines } from './resource-views.ts';
import { testRow } from './test-webhook.ts';
import { webhookRows } from './webhooks.ts';

/** When something was made, by its seconds since 1970. */
const made = ({ created_at: seconds }: { readonly created_at?: number }, now: number) =>
  seconds === undefined ? null : relative(new Date(seconds * 1_000).toISOString(), now);

const file = { File: 'id', Purpose: 'purpose', Bytes: 'bytes', Created: made, Name: 'filename' } as const;

function progress({ request_counts: counts }: Schemas['Batch']): string {
  const { total = 0, completed = 0, failed = 0 } = counts ?? {};
  return `${completed} of ${total}${failed > 0 ? `, ${failed} failed` : ''}`;
}

const batch = {
  Batch: 'id',
  State: ({ status = '' }: Schemas['Batch']) =>
    status === 'failed' || status === 'expired' ? ({ text: status, style: 'red' } as const) : status,
  Answered: progress,
  Endpoint: 'endpoint',
  Created: made,
} as const;

const batchLines = detailsOf<Schemas['Batch']>({
  ...batch,
  Requests: 'input_file_id',
  Answers: 'output_file_id',
  Failures: 'error_file_id',
});

/** The requests of a batch are a file, which goes up first. */
async function uploaded(values: Values, context: CommandContext): Promise<Values> {
  const sent = await request(context, operationOf('createFile'), { file: values.input_file_id, purpose: 'batch' });
  return { ...values, input_file_id: (sent as Schemas['StoredFile']).id };
}

const budgetsSet = ({ data }: Schemas['BudgetList'], user: unknown): string[] => [
  `Budgets of ${printable(String(user))}: ${budgetsText(data)}`,
];

/** The part of a key's text that is shown: what follows is secret, and the address of a request may be logged. */
const shownOfKey = 30;

/** The commands by their resource, which is a command itself where it has one row. */
const resources: Readonly<Record<string, readonly [description: string, rows: Row | Rows]>> = {
  webhooks: ["list, create and change your account's webhooks", webhookRows],
  test: ['send a webhook a sample event, once, and show what came of it', testRow],
  deliveries: ['see what became of events, and send them again', deliveryRows],
  events: ['list and publish events', eventRows],
  keys: ['create, list, update and revoke API keys', keyRows],
  budgets: [
    'show, set and remove the budgets of accounts',
    {
      show: row('listBudgets', {
        does: 'show the budgets of an account, and what it has used of them',
        ofUser: 'listUserBudgets',
        examples: ['budgets show', 'budgets show --user usr_2', 'budgets show --json | jq .data'],
        lines: budgetLines,
      }),
      set: row('updateUserBudgets', {
        does: 'replace the budgets of an account',
        flags: { budgets: { flags: '--budget <budget>', meaning: budgetMeaning, read: readBudgets } },
        examples: [
          'budgets set --user usr_1 --budget month:tokens=1000000',
          'budgets set --user usr_1 --budget day:requests=1000 --budget month:tokens=1000000,credits=50',
        ],
        lines: (budgets, _paint, _now, { user_id: user }) => budgetsSet(budgets, user),
      }),
      remove: row('updateUserBudgets', {
        does: 'remove all budgets of an account',
        fixed: { budgets: [] },
        examples: ['budgets remove --user usr_1'],
        lines: (budgets, _paint, _now, { user_id: user }) => budgetsSet(budgets, user),
      }),
    },
  ],
  credits: [
    'show the credits your account has left, or top up an account',
    {
      show: row('retrieveCredits', {
        does: 'show what your account has left',
        isDefault: true,
        examples: ['credits', 'credits --json | jq .credits_remaining'],
        lines: detailsOf<Schemas['Credits']>({
          Left: ({ credits_remaining: left, low_threshold: threshold }) => ({
            text: left,
            style: left > threshold ? 'green' : left > 0 ? 'yellow' : 'red',
          }),
          'Told when below': 'low_threshold',
        }),
      }),
      'top-up': row('topUpCredits', {
        flags: { 'Idempotency-Key': { meaning: 'add them at most once under this key' } },
        examples: ['credits top-up --user usr_1 --credits 500 --idempotency-key welcome-usr_1'],
        lines: ({ user_id: id, credits: added, credits_remaining: left }) => [
          `Added ${figure(added)}; ${printable(id)} has ${figure(left)} left`,
        ],
      }),
    },
  ],
  usage: [
    "sum up what your account's model calls have used",
    row('retrieveUsage', {
      flags: {
        from: { meaning: 'the first day, UTC; 30 days before --to when you leave it out' },
        group_by: { flags: '--by <dimension>', read: severalOf(['day', 'model', 'key']) },
      },
      examples: ['usage', 'usage --from 2026-01-01 --to 2026-01-31 --by model,key'],
      lines: usageLines,
      more: 'There is more: ask for fewer days with --from and --to.',
    }),
  ],
  files: [
    'upload, list, download and delete the files of your account',
    {
      list: row('listFiles', {
        does: 'list your files',
        examples: ['files list', "files list --purpose batch --json | jq -r '.data[].id'"],
        lines: tableOf<Schemas['StoredFile']>(file, 'No files.'),
      }),
      show: row('retrieveFile', {
        does: 'show a file: its name, purpose and size',
        lines: detailsOf<Schemas['StoredFile']>(file),
      }),
      upload: row('createFile', {
        does: 'upload a file, and print its id',
        flags: { purpose: { usual: 'user_data' } },
        examples: ['files upload rivers.pdf', 'files upload requests.jsonl --purpose batch'],
        lines: ({ id }) => [id],
      }),
      download: row('downloadFile', {
        does: 'download the bytes of a file',
        flags: { to: { flags: '<path>', meaning: 'where to write it; a file that is there is kept' } },
        examples: ['files download file-9f2c answers.jsonl'],
        run: ({ terminal }, { to }, send) => saveTo(String(to), send, terminal),
      }),
      delete: row('deleteFile', {
        does: 'delete a file at its provider',
        lines: ({ id }) => [`${id} is deleted.`],
      }),
    },
  ],
  batches: [
    'have files of requests answered within a day',
    {
      list: row('listBatches', {
        does: 'list your batches',
        examples: ['batches list', "batches list --json | jq -r '.data[] | [.id, .status] | @tsv'"],
        lines: tableOf<Schemas['Batch']>(batch, 'No batches.'),
      }),
      show: row('retrieveBatch', {
        does: 'show a batch: how far it is, and the files that it has made',
        lines: batchLines,
      }),
      create: row('createBatch', {
        does: 'upload a file of requests, and create a batch of them',
        flags: {
          input_file_id: { flags: '<path>', meaning: 'the file: a request in each line' },
          endpoint: { usual: '/v1/chat/completions' },
        },
        fixed: { completion_window: '24h' },
        examples: ['batches create requests.jsonl', 'batches create texts.jsonl --endpoint /v1/embeddings'],
        prepare: uploaded,
        lines: batchLines,
      }),
      cancel: row('cancelBatch', {
        does: 'cancel a batch; what is answered by then is kept, and paid for',
        lines: batchLines,
      }),
    },
  ],
  storage: [
    'list what providers keep for your account, and add it up',
    {
      list: row('listStoredObjects', {
        ofUser: 'listUserStoredObjects',
        examples: ['storage list', 'storage list --kind file', "storage list --json | jq -r '.data[].id'"],
        lines: tableOf<Schemas['StoredObject']>(
          {
            id: 'id',
            kind: 'kind',
            bytes: 'bytes',
            created: ({ created_at: at }, now) => relative(at, now),
            'made by': ({ made_by: { object_id: object, endpoint } }) => object ?? endpoint,
            name: 'name',
          },
          'Nothing.',
        ),
      }),
      totals: row('listStoredObjects', {
        does: 'add up how much of each kind your account keeps',
        ofUser: 'listUserStoredObjects',
        only: [],
        fixed: { limit: 1 },
        examples: ['storage totals', 'storage totals --user usr_2'],
        picks: ({ totals = [] }) => ({ data: totals }),
        lines: tableOf<Schemas['StoredObjectTotal']>(
          { kind: 'kind', count: ({ count, has_more: more }) => (more ? `${figure(count)}+` : count), bytes: 'bytes' },
          'Nothing.',
        ),
      }),
    },
  ],
  accounts: [
    'list and show all accounts; needs a key with the scope admin',
    {
      list: row('listAccounts', {
        flags: { limit: { usual: '100' } },
        examples: ['accounts list', 'accounts list --prefix usr_ --limit 20'],
        lines: accountsLines,
      }),
      show: row('retrieveAccount', {
        does: 'show an account: its keys, webhooks, usage, budgets, credits and limits',
        examples: ['accounts show usr_1', 'accounts show usr_1 --json | jq .webhooks'],
        lines: accountLines,
      }),
    },
  ],
  find: [
    'find what an id names; needs a key with the scope admin',
    row('searchIds', {
      flags: { id: { read: (text) => (text.startsWith('emg_') ? text.slice(0, shownOfKey) : text) } },
      examples: ['find wh_01kaj3m5x2f7q9w4n8r1t6b0zc', 'find req_01kaj3m5x2f7q9w4n8r1t6b0ze'],
      lines: tableOf<Schemas['SearchResult']>(
        {
          type: 'type',
          id: 'id',
          account: 'user_id',
          made: ({ created_at: at }, now) => at && momentOf(at, now),
        },
        'Nothing has that id.',
      ),
    }),
  ],
  status: [
    'show the backlog, the processes and the upstreams; needs a key with the scope admin',
    row('retrieveBacklog', {
      examples: ['status', 'status --json | jq .backlog.oldest_due_seconds'],
      async run({ api, show }, _values, send) {
        const [backlog, { data: processes }, { data: upstreams }] = await Promise.all([
          send(),
          dataFrom(api.GET('/v1/admin/processes')),
          dataFrom(api.GET('/v1/admin/upstreams')),
        ]);
        show({ backlog, processes, upstreams }, statusLines);
      },
    }),
  ],
};

/** The commands of the table. @param isNamed whether it is used: the others get no more than a line in the help */
export function resourceCommands(terminal: Terminal, isNamed: (name: string) => boolean): Command[] {
  return Object.entries(resources).map(([name, [description, rows]]) => {
    if ('operation' in rows && isNamed(name)) {
      const does = description.replace(/;.*/, '');
      return operationCommand(terminal, name, { does, ...(rows as Row) }).summary(description);
    }
    const command = new Command(name).description(description);
    if (!isNamed(name)) return command;
    for (const [verb, row] of Object.entries(rows as Rows)) {
      command.addCommand(operationCommand(terminal, `${name} ${verb}`, row), { isDefault: row.isDefault ?? false });
    }
    return command;
  });
}
