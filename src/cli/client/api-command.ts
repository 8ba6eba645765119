import { Command, Option } from 'commander';
import { wrongUse } from '../terminal/command-failure.ts';
import type { Paint, Terminal } from '../terminal/terminal.ts';
import { toJson } from '../terminal/text.ts';
import { type Access, createApiClient, dataFrom } from './api.ts';
import { count } from './flags.ts';
import { gather, type Listed, nextAfter, type PageQuery, type ResultPage } from './pages.ts';

/** Gives a command the options that all commands have that use the API, below its own. */
export function throughApi<Used extends Command>(command: Used): Used {
  return command
    .optionsGroup('Gateway:')
    .option(
      '--base-url <url>',
      'where the gateway is, with or without /v1; EXPRESS_MODEL_GATEWAY_BASE_URL, or else http://127.0.0.1:3000',
    )
    .option('--api-key <key>', 'API key of your account; prefer EXPRESS_MODEL_GATEWAY_API_KEY, which ps does not show')
    .option('--json', "print the API's JSON and nothing else");
}

/** For commands that need no key where they can reach the database. */
export function databaseOption(): Option {
  const where = 'MONGODB_URI, or the embedded one that DATA_DIR leads to';
  return new Option('--database', `without a key, straight in the database: ${where}`).conflicts(['baseUrl', 'apiKey']);
}

export function subject(name: string, description: string, commands: readonly Command[]): Command {
  const command = new Command(name).description(description);
  for (const below of commands) command.addCommand(below);
  return command;
}

/** What every command that uses the API works with. */
export type CommandContext = ReturnType<typeof createContext>;

type Lines<Body> = (body: Body, paint: Paint, now: number) => readonly string[];

/** A call of the API, made with the arguments of a command and its options. */
type Call<Args extends unknown[], Body> = (context: CommandContext, ...args: Args) => Promise<{ data?: Body }>;

/** A command that uses the API. Its own options come before the call of the method that says what it does. */
export class ApiCommand extends Command {
  readonly #terminal: Terminal;

  constructor(terminal: Terminal, name: string, description: string) {
    super(name);
    this.#terminal = terminal;
    this.description(description);
  }

  /** Says at the end of its help how it is used. */
  examples(...lines: readonly string[]): this {
    const commands = lines.map((line) => `  $ express-model-gateway ${line}`);
    return this.addHelpText('after', ['', 'Examples:', ...commands].join('\n'));
  }

  /** It shows what one call answers. */
  shows<Args extends unknown[], Body>(call: Call<Args, Body>, lines: Lines<Body>): this {
    return this.runs(async (context, ...args: Args) => context.show(await dataFrom(call(context, ...args)), lines));
  }

  /**
   * It shows as many rows of a list as `--limit` says, and how to get more.
   * @param after flags and meaning of the option for the row that they follow
   */
  lists<Options, Row extends { id: string }>(
    after: readonly [flags: string, meaning: string],
    page: (context: CommandContext, query: PageQuery, options: Options) => Promise<{ data?: ResultPage<Row> }>,
    lines: Lines<ResultPage<Row>>,
  ): this {
    return this.option('--limit <n>', 'how many at most', count, 20)
      .option(...after)
      .runs(async (context, options: Options & PageQuery) => {
        const pageOf = (query: PageQuery) => dataFrom(page(context, query, options));
        const rows = await gather(options.limit, pageOf, options.after);
        context.show(rows, lines);
        noteMore(rows, context.terminal);
      });
  }

  /** It shows what one call answers, or what the database holds where `--database` is given: then no key is needed. */
  showsEither<Args extends unknown[], Body>(
    stored: (env: Terminal['env'], ...args: Args) => Promise<Body>,
    call: Call<Args, Body>,
    lines: Lines<Body>,
  ): this {
    const terminal = this.#terminal;
    return throughApi(this).action(async (...parameters) => {
      const args = parameters.slice(0, -1) as Args;
      const options = this.opts<GatewayOptions & { readonly database?: true }>();
      if (options.database) return createShow(terminal, options.json)(await stored(terminal.env, ...args), lines);
      const context = createContext(terminal, options);
      context.show(await dataFrom(call(context, ...args)), lines);
    });
  }

  /** @param handler gets the arguments of the command and its options */
  runs<Args extends unknown[]>(handler: (context: CommandContext, ...args: Args) => Promise<void>): this {
    // commander passes the arguments, the options and the command
    return throughApi(this).action((...parameters) =>
      handler(createContext(this.#terminal, this.opts<GatewayOptions>()), ...(parameters.slice(0, -1) as Args)),
    );
  }
}

/** Says how to read on where a list has not ended. */
export function noteMore(rows: ResultPage<Listed>, { printNote }: Terminal): void {
  const after = nextAfter(rows);
  if (rows.has_more && after !== undefined) printNote(`There are more: use --after ${after}`);
}

/** Makes what prints an answer: as the API gave it for programs, in lines for people. */
function createShow({ print, paint, now }: Terminal, json = false) {
  return <Body>(body: Body, lines: Lines<Body>): void => {
    for (const line of json ? [toJson(body, 2)] : lines(body, paint, now())) print(line);
  };
}

/** The options for the gateway's address, the key and the form of the output. */
export interface GatewayOptions extends Partial<Access> {
  readonly json?: boolean;
}

/** @throws CommandFailure where there is no key, or the base URL is not valid */
export function createContext(terminal: Terminal, { baseUrl, apiKey, json = false }: GatewayOptions) {
  const { env } = terminal;
  const api = createApiClient({
    baseUrl: readBaseUrl(baseUrl || env.EXPRESS_MODEL_GATEWAY_BASE_URL || defaultBaseUrl),
    apiKey: readApiKey(apiKey || env.EXPRESS_MODEL_GATEWAY_API_KEY),
  });
  return { api, terminal, json, show: createShow(terminal, json) };
}

const defaultBaseUrl = 'http://127.0.0.1:3000';

/** Also takes a base URL with `/v1`, as OpenAI's clients want it. */
function readBaseUrl(text: string): string {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) {
    throw wrongUse(`The base URL must be an http or https URL such as ${defaultBaseUrl}, not '${text}'.`);
  }
  const { origin, pathname } = new URL(text);
  return origin + pathname.replace(/\/+$/, '').replace(/\/+v1$/, '');
}

function readApiKey(text: string | undefined): string {
  if (text && /^[\x21-\x7e]+$/.test(text)) return text;
  if (text) throw wrongUse('The API key must be as it was printed, emg_…, without spaces.');
  throw wrongUse(
    [
      'An API key is needed: set EXPRESS_MODEL_GATEWAY_API_KEY, or give --api-key.',
      'The first start of a gateway prints one; on its machine another is made without one:',
      '  express-model-gateway keys create --database --user usr_1',
    ].join('\n'),
  );
}
