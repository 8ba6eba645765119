import { type Command, Option } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, subject } from '../client/api-command.ts';
import { type Cell, type Column, detailLines, listLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { ago, uploadFrom } from './files.ts';

type Batch = Schemas['Batch'];
type Endpoint = Schemas['BatchRequest']['endpoint'];

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

const batchLines = detailLines((batch: Batch, now) => [
  ['Batch', batch.id],
  ['State', state(batch)],
  ['Answered', progress(batch)],
  ['Endpoint', batch.endpoint],
  ['Requests', batch.input_file_id],
  ['Answers', batch.output_file_id ?? undefined],
  ['Failures', batch.error_file_id ?? undefined],
  ['Created', ago(batch.created_at, now)],
]);

const endpoints: readonly Endpoint[] = [
  '/v1/chat/completions',
  '/v1/responses',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/moderations',
];

export function batchesCommand(terminal: Terminal): Command {
  return subject('batches', 'have files of requests answered within a day', [
    new ApiCommand(terminal, 'list', 'your batches, newest first')
      .examples('batches list', "batches list --json | jq -r '.data[] | [.id, .status] | @tsv'")
      .lists<unknown, Batch>(
        ['--after <batch>', 'those before this one'],
        ({ api }, query) => api.GET('/v1/batches', { params: { query } }),
        listLines(columns, 'No batches.'),
      ),
    new ApiCommand(terminal, 'show', 'one batch: how far it is, and the files that it has made')
      .argument('<batch>', 'its id')
      .examples('batches show batch_9f2c')
      .shows(
        ({ api }, batch_id: string) => api.GET('/v1/batches/{batch_id}', { params: { path: { batch_id } } }),
        batchLines,
      ),
    new ApiCommand(terminal, 'create', 'send a file of requests up, and begin a batch of them')
      .argument('<path>', 'the file: a request in each line')
      .addOption(
        new Option('--endpoint <path>', 'where the requests go').choices(endpoints).default('/v1/chat/completions'),
      )
      .examples('batches create requests.jsonl', 'batches create texts.jsonl --endpoint /v1/embeddings')
      .runs(async ({ api, show }, path: string, { endpoint }: { endpoint: Endpoint }) => {
        const { id: input_file_id } = await uploadFrom(api, path, 'batch');
        const body = { input_file_id, endpoint, completion_window: '24h' } as const;
        show(await dataFrom(api.POST('/v1/batches', { body })), batchLines);
      }),
    new ApiCommand(terminal, 'cancel', 'stop a batch; what is answered by then is kept, and paid for')
      .argument('<batch>', 'its id')
      .examples('batches cancel batch_9f2c')
      .shows(
        ({ api }, batch_id: string) => api.POST('/v1/batches/{batch_id}/cancel', { params: { path: { batch_id } } }),
        batchLines,
      ),
  ]);
}
