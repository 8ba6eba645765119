import { type Command, Option } from 'commander';
import { type Api, dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, subject } from '../client/api-command.ts';
import { count } from '../client/flags.ts';
import { gather, printMore, type ResultPage } from '../client/pages.ts';
import { type Cell, type Column, fieldLines, listLines } from '../terminal/table.ts';
import type { Paint, Terminal } from '../terminal/terminal.ts';
import { ago, uploadFrom } from './files.ts';

type Batch = Schemas['Batch'];
type Endpoint = Schemas['BatchRequest']['endpoint'];

/** `batches`: files of requests that a provider answers within a day. */
export function batchesCommand(terminal: Terminal): Command {
  return subject('batches', 'have files of requests answered within a day', [
    listCommand(terminal),
    showCommand(terminal),
    createCommand(terminal),
    cancelCommand(terminal),
  ]);
}

function state({ status = '' }: Batch): Cell {
  const isBad = status === 'failed' || status === 'expired';
  return isBad ? { text: status, style: 'red' } : status;
}

/** How many of the requests are answered, and how many have failed. */
function progress({ request_counts: counts }: Batch): string {
  const { total = 0, completed = 0, failed = 0 } = counts ?? {};
  return `${completed} of ${total}${failed > 0 ? `, ${failed} failed` : ''}`;
}

const columns: readonly Column<Batch>[] = [
  { header: 'BATCH', cell: ({ id }) => id },
  { header: 'STATE', cell: state },
  { header: 'ANSWERED', cell: progress },
  { header: 'ENDPOINT', cell: ({ endpoint }) => endpoint ?? '' },
  { header: 'CREATED', cell: ({ created_at: at }, now) => ago(at, now) },
];

function batchLines(batch: Batch, paint: Paint, now: number): string[] {
  return fieldLines(
    [
      ['Batch', batch.id],
      ['State', state(batch)],
      ['Answered', progress(batch)],
      ['Endpoint', batch.endpoint],
      ['Requests', batch.input_file_id],
      ['Answers', batch.output_file_id ?? undefined],
      ['Failures', batch.error_file_id ?? undefined],
      ['Created', ago(batch.created_at, now)],
    ],
    paint,
  );
}

interface ListOptions {
  readonly limit: number;
  readonly after?: string;
}

function listCommand(terminal: Terminal): Command {
  return new ApiCommand(terminal, 'list', 'your batches, newest first')
    .option('--limit <n>', 'how many at most', count, 20)
    .option('--after <batch>', 'those before this one')
    .examples('batches list', "batches list --json | jq -r '.data[] | [.id, .status] | @tsv'")
    .runs(async ({ api, show }, { limit, after }: ListOptions) => {
      const page = await gather(limit, (query) => batchPage(api, query), after);
      show(page, listLines(columns, 'No batches.'));
      printMore(terminal, page);
    });
}

async function batchPage(api: Api, query: { limit: number; after?: string }) {
  return (await dataFrom(api.GET('/v1/batches', { params: { query } }))) as ResultPage<Batch>;
}

function showCommand(terminal: Terminal): Command {
  return new ApiCommand(terminal, 'show', 'one batch: how far it is, and the files that it has made')
    .argument('<batch>', 'its id')
    .examples('batches show batch_9f2c')
    .shows(
      ({ api }, batch_id: string) => api.GET('/v1/batches/{batch_id}', { params: { path: { batch_id } } }),
      batchLines,
    );
}

const endpoints: readonly Endpoint[] = [
  '/v1/chat/completions',
  '/v1/responses',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/moderations',
];

function createCommand(terminal: Terminal): Command {
  return new ApiCommand(terminal, 'create', 'send a file of requests up, and begin a batch of them')
    .argument('<path>', 'the file: a request in each line')
    .addOption(
      new Option('--endpoint <path>', 'where the requests go').choices(endpoints).default('/v1/chat/completions'),
    )
    .examples('batches create requests.jsonl', 'batches create texts.jsonl --endpoint /v1/embeddings')
    .runs(async ({ api, show }, path: string, { endpoint }: { endpoint: Endpoint }) => {
      const { id: input_file_id } = await uploadFrom(api, path, 'batch');
      const body = { input_file_id, endpoint, completion_window: '24h' } as const;
      show(await dataFrom(api.POST('/v1/batches', { body })), batchLines);
    });
}

function cancelCommand(terminal: Terminal): Command {
  return new ApiCommand(terminal, 'cancel', 'stop a batch; what is answered by then is kept, and paid for')
    .argument('<batch>', 'its id')
    .examples('batches cancel batch_9f2c')
    .shows(
      ({ api }, batch_id: string) => api.POST('/v1/batches/{batch_id}/cancel', { params: { path: { batch_id } } }),
      batchLines,
    );
}
