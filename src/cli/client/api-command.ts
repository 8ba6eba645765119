import { Command, Option } from 'commander';
import { wrongUse } from '../terminal/command-failure.ts';
import type { Paint, Terminal } from '../terminal/terminal.ts';
import { toJson } from '../terminal/text.ts';
import { type Access, type Api, createApiClient } from './api.ts';
import { type Listed, nextAfter, type ResultPage } from './pages.ts';

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

/** What every command that uses the API works with. */
export type CommandContext = ReturnType<typeof createContext>;

/** A command that uses the API. */
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

  /** It needs no key where it can reach the database. */
  takesDatabase(): this {
    const where = 'MONGODB_URI, or the embedded one that DATA_DIR leads to';
    const option = new Option('--database', `without a key, straight in the database: ${where}`);
    return this.addOption(option.conflicts(['baseUrl', 'apiKey']));
  }

  /** Comes after its own options. @param handler gets the arguments of the command and its options */
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

/** The options for the gateway's address, the key and the form of the output. */
export interface GatewayOptions extends Partial<Access> {
  readonly json?: boolean;
}

export function createContext(terminal: Terminal, { baseUrl, apiKey, json = false }: GatewayOptions) {
  const { env, print, paint, now } = terminal;
  let api: Api | undefined;
  return {
    terminal,
    json,
    /** @throws CommandFailure where there is no key, or the base URL is not valid */
    get api(): Api {
      api ??= createApiClient({
        baseUrl: readBaseUrl(baseUrl || env.EXPRESS_MODEL_GATEWAY_BASE_URL || defaultBaseUrl),
        apiKey: readApiKey(apiKey || env.EXPRESS_MODEL_GATEWAY_API_KEY),
      });
      return api;
    },
    /** Prints an answer: as the API gave it for programs, in lines for people. */
    show<Body>(body: Body, lines: (body: Body, paint: Paint, now: number) => readonly string[]): void {
      for (const line of json ? [toJson(body, 2)] : lines(body, paint, now())) print(line);
    },
  };
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
