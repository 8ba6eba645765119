import { Command, Option } from 'commander';
import { wrongUse } from '../terminal/command-failure.ts';
import type { Paint, Terminal } from '../terminal/terminal.ts';
import { toJson } from '../terminal/text.ts';
import { type Access, type Api, createApiClient } from './api.ts';

const group = 'Gateway:';

/** Lines for the end of a command's help. */
export function examples(...lines: readonly string[]): string {
  return ['', 'Examples:', ...lines.map((line) => `  $ express-model-gateway ${line}`)].join('\n');
}

/** Gives a command that uses the API the options that all of them have, below its own. */
export function throughApi(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--base-url <url>',
        'where the gateway is, with or without /v1; EXPRESS_MODEL_GATEWAY_BASE_URL, or else http://127.0.0.1:3000',
      ).helpGroup(group),
    )
    .addOption(
      new Option(
        '--api-key <key>',
        'API key of your account; prefer EXPRESS_MODEL_GATEWAY_API_KEY, which ps does not show',
      ).helpGroup(group),
    )
    .addOption(new Option('--json', "print the API's JSON and nothing else").helpGroup(group));
}

/** For commands that need no key where they can reach the database. */
export function databaseOption(): Option {
  const where = 'MONGODB_URI, or the embedded one that DATA_DIR leads to';
  return new Option('--database', `without a key, straight in the database: ${where}`).conflicts(['baseUrl', 'apiKey']);
}

/** Commands of one subject, all of which use the API. */
export function apiCommands(name: string, description: string, commands: readonly Command[]): Command {
  const subject = new Command(name).description(description);
  for (const command of commands) subject.addCommand(throughApi(command));
  return subject;
}

/** What every command that uses the API works with. */
export interface CommandContext {
  readonly api: Api;
  readonly terminal: Terminal;
  /** Whether the output is JSON, for programs. */
  readonly json: boolean;
  readonly show: Show;
}

/** Prints an answer: as the API gave it for programs, in lines for people. */
export type Show = <Body>(body: Body, lines: (body: Body, paint: Paint, now: number) => readonly string[]) => void;

/** What a command does with its arguments and its options. */
export type Handler<Args extends unknown[]> = (context: CommandContext, ...args: Args) => Promise<void>;

/** Turns a handler into an action for commander, which passes the arguments, the options and the command. */
export function apiAction<Args extends unknown[]>(terminal: Terminal, handler: Handler<Args>) {
  return async (...parameters: [...Args, Command]): Promise<void> => {
    const command = parameters.at(-1) as Command;
    const args = parameters.slice(0, -1) as Args;
    await handler(createContext(terminal, command.opts<GatewayOptions>()), ...args);
  };
}

/** @param json whether the output is JSON, for programs */
export function createShow(terminal: Terminal, json: boolean): Show {
  if (json) return (body) => terminal.print(toJson(body, 2));
  return (body, lines) => {
    for (const line of lines(body, terminal.paint, terminal.now())) terminal.print(line);
  };
}

/** The options for the gateway's address, the key and the form of the output. */
export interface GatewayOptions {
  readonly baseUrl?: string;
  readonly apiKey?: string;
  readonly json?: true;
}

/** @throws CommandFailure where there is no key, or the base URL is not valid */
export function createContext(terminal: Terminal, options: GatewayOptions): CommandContext {
  const json = options.json ?? false;
  return { api: createApiClient(readAccess(options, terminal)), terminal, json, show: createShow(terminal, json) };
}

function readAccess({ baseUrl, apiKey }: GatewayOptions, { env }: Terminal): Access {
  return {
    baseUrl: readBaseUrl(baseUrl || env.EXPRESS_MODEL_GATEWAY_BASE_URL || defaultBaseUrl),
    apiKey: readApiKey(apiKey || env.EXPRESS_MODEL_GATEWAY_API_KEY),
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
