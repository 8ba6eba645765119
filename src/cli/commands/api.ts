import { Argument, type Command, InvalidArgumentError } from 'commander';
import { asBytes, bytesOf, dataFrom, sendTo } from '../client/api.ts';
import { ApiCommand, type CommandContext } from '../client/api-command.ts';
import { pairs, parseExact, readBytes, readText } from '../client/flags.ts';
import { saveTo } from '../client/operation-command.ts';
import { gather, type Listed, type ResultPage } from '../client/pages.ts';
import { wrongUse } from '../terminal/command-failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { printable, toJson } from '../terminal/text.ts';

type Fields = Readonly<Record<string, unknown>>;
type Texts = Readonly<Record<string, string>>;

interface Options {
  readonly rawField?: Texts;
  readonly field?: Texts;
  readonly header?: Texts;
  readonly input?: string;
  readonly paginate?: true;
  readonly output?: string;
}

/** A segment that URLs resolve, in each way in which they take it for one: it leads to another place than it looks. */
const dots = /(^|[/\\])(\.|%2e){1,2}([/\\]|$)/i;

/** @throws InvalidArgumentError for a whole address, or a path out of the base URL: the key goes to that gateway alone */
function readPath(text: string): string {
  const [path = ''] = text.replace(/[\s\p{Cc}]/gu, '').split('?');
  if (text.startsWith('/') && !dots.test(path) && !text.includes('#')) return text;
  throw new InvalidArgumentError(
    'It must be a path such as /v1/models, without #, . and ..; --base-url says where the gateway is.',
  );
}

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];

function readMethod(text: string): string {
  const method = text.toUpperCase();
  if (methods.includes(method)) return method;
  throw new InvalidArgumentError(`It must be one of ${methods.join(', ')}.`);
}

export function apiCommand(terminal: Terminal): Command {
  return new ApiCommand(terminal, 'api', 'send any request of the API, and print what it answers')
    .addArgument(new Argument('<method>', methods.join(', ')).argParser(readMethod))
    .addArgument(new Argument('<path>', 'such as /v1/models; /v1/openapi.yaml describes them all').argParser(readPath))
    .option('-f, --raw-field <name=value>', 'a text; may be repeated', pairs('=', 'model=gpt-5-mini', String))
    .option(
      '-F, --field <name=value>',
      'a value in JSON, @<file> for the text of a file, or - for stdin; may be repeated',
      pairs('=', 'stream=true', String),
    )
    .option('--input <file>', 'the body, from a file or from stdin (-); fields then go to the query')
    .option(
      '-H, --header <name: value>',
      'a header; may be repeated',
      pairs(':', "'Idempotency-Key: pay_1'", (text) => text.trim()),
    )
    .option('--paginate', 'read on until a list ends, and print it as one')
    .option('--output <path>', 'write the answer to a file as it comes; a file that is there is kept')
    .addHelpText('after', '\nFields are the query of a GET or DELETE, and the JSON body of the other methods.')
    .examples(
      'api GET /v1/models',
      'api GET /v1/deliveries -f state=failed --paginate',
      `api POST /v1/chat/completions -f model=gpt-5-mini -F 'messages=[{"role":"user","content":"Hi"}]'`,
      'api POST /v1/embeddings --input request.json',
    )
    .runs(send);
}

async function send(context: CommandContext, method: string, path: string, options: Options): Promise<void> {
  const { api, terminal } = context;
  const { header, input, output, paginate } = options;
  if (paginate && method !== 'GET') throw wrongUse('--paginate reads a list: its method is GET.');
  if (input !== undefined && method === 'GET') throw wrongUse('--input is a body, and a GET has none.');
  const fields = await fieldsOf(options, terminal);
  const isQuery = input !== undefined || method === 'GET' || method === 'DELETE';
  const given = input === undefined ? undefined : await readBytes('--input', input, terminal);
  const init = {
    ...asBytes,
    headers: readHeaders(header),
    body: given ?? (isQuery || Object.keys(fields).length === 0 ? undefined : JSON.stringify(fields)),
    bodySerializer: (bytes: unknown) => bytes,
  };
  const ask = async (more: Fields = {}): Promise<Response> => {
    const search = toQuery({ ...(isQuery && fields), ...more });
    const address = search === '' ? path : `${path}${path.includes('?') ? '&' : '?'}${search}`;
    return (await sendTo(api)(method, address, init)).response;
  };
  const list = async () => toJson(await everyPage(ask), 2);
  const body = async () => (paginate ? new Blob([`${await list()}\n`]).stream() : (await ask()).body);
  if (output !== undefined) return saveTo(output, body, terminal);
  if (paginate) return terminal.print(await list());
  await printAnswer(await ask(), terminal);
}

function readHeaders(header: Texts = {}): Headers {
  try {
    return new Headers(header);
  } catch (error) {
    throw wrongUse(`--header: ${(error as Error).message}`);
  }
}

/** The fields of a request by their names. */
async function fieldsOf({ rawField, field = {} }: Options, terminal: Terminal): Promise<Fields> {
  const typed = Object.entries(field).map(async ([name, value]) => [name, await typedValue(name, value, terminal)]);
  return { ...rawField, ...Object.fromEntries(await Promise.all(typed)) };
}

/** The value of a field that is JSON, or the text of a file or of stdin. */
async function typedValue(name: string, value: string, terminal: Terminal): Promise<unknown> {
  if (value === '-' || value.startsWith('@')) return readText(`--field ${name}`, value, terminal);
  try {
    return parseExact(value);
  } catch (error) {
    const isText = error instanceof SyntaxError;
    throw wrongUse(
      `--field ${name}: ${isText ? `is not JSON; a text is given as -f ${name}=…` : (error as Error).message}`,
    );
  }
}

function toQuery(fields: Fields): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    search.append(name, typeof value === 'string' ? value : JSON.stringify(value));
  }
  return search.toString();
}

const jsonOf = (response: Response): Promise<unknown> =>
  dataFrom(response.text().then((text) => ({ data: JSON.parse(text) as unknown })));

/** All pages of a list, as one. */
function everyPage(ask: (more: Fields) => Promise<Response>): Promise<ResultPage<Listed>> {
  return gather<Listed>(Number.POSITIVE_INFINITY, async ({ after }) => {
    const page = (await jsonOf(await ask(after === undefined ? {} : { after }))) as ResultPage<Listed>;
    if (!Array.isArray(page?.data)) throw wrongUse('The answer is not a list: leave out --paginate.');
    return page;
  });
}

/** Prints JSON laid out, and any other text by its lines as they come. @throws CommandFailure for what may not be text */
async function printAnswer(response: Response, { print }: Terminal): Promise<void> {
  const type = response.headers.get('content-type') ?? '';
  if (!response.body) return;
  if (/^application\/(.*\+)?json\b/.test(type)) return print(toJson(await jsonOf(response), 2));
  if (!/^text\/|json|yaml/.test(type)) {
    await response.body.cancel();
    throw wrongUse(`The answer is ${type || 'of no type'}, and may not be text: write it to a file with --output.`);
  }
  for await (const line of linesOf(bytesOf(response.body))) print(printable(line));
}

/** The lines of a text as they come. Those of `readline` end without an error in Node 20 where the text is cut off. */
async function* linesOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const piece of pieces) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split(/\r?\n/);
    rest = lines.pop() ?? '';
    yield* lines;
  }
  rest += decoder.decode();
  if (rest !== '') yield rest;
}
