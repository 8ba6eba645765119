import { wrongUse } from '../terminal/command-failure.ts';
import type { Paint } from '../terminal/paint.ts';
import { toJson } from '../terminal/printable.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { type Access, type Api, createApiClient } from './api.ts';

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

function readAccess({ baseUrl, apiKey }: GatewayOptions, { env }: Terminal): Access {
  return {
    baseUrl: readBaseUrl(baseUrl || env.EXPRESS_MODEL_GATEWAY_BASE_URL || defaultBaseUrl),
    apiKey: readApiKey(apiKey || env.EXPRESS_MODEL_GATEWAY_API_KEY),
  };
}

/** @throws CommandFailure where there is no key, or the base URL is not valid */
export function createContext(terminal: Terminal, options: GatewayOptions): CommandContext {
  const json = options.json ?? false;
  return { api: createApiClient(readAccess(options, terminal)), terminal, json, show: createShow(terminal, json) };
}
