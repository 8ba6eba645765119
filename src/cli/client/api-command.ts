import { Command, Option } from 'commander';
import type { Terminal } from '../terminal/terminal.ts';
import { type CommandContext, createContext, type GatewayOptions } from './context.ts';

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
