import { Command, CommanderError } from 'commander';
import { GatewayError } from '../errors.ts';
import { readVersion } from '../version.ts';
import { apiCommand } from './commands/api.ts';
import { doctorCommand } from './commands/doctor.ts';
import { publishStoredCommand } from './commands/events.ts';
import { listenCommand } from './commands/listen.ts';
import { migrateCommand } from './commands/migrate.ts';
import { resealCommand } from './commands/reseal.ts';
import { resourceCommands } from './commands/resources.ts';
import { startCommand } from './commands/start.ts';
import { CommandFailure, type ExitCode } from './terminal/command-failure.ts';
import type { Terminal } from './terminal/terminal.ts';
import { printableLines } from './terminal/text.ts';

/**
 * Runs a command to its end.
 * @param args what was typed after the program's name
 * @returns the exit code: 0, 1 where something failed, 2 where the command was typed wrongly; 3 where `doctor` could not check
 */
export async function runCommand(args: readonly string[], terminal: Terminal): Promise<0 | ExitCode> {
  // `doctor` says with 1 and 2 what it has found; what keeps it from looking must be neither
  const [typo, crash] = args[0] === 'doctor' ? ([3, 3] as const) : ([2, 1] as const);
  try {
    await createProgram(terminal, args).parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    // commander has printed what was wrong, or the help
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : typo;
    for (const line of printableLines(explainError(error))) terminal.printNote(line);
    return error instanceof CommandFailure ? error.exitCode : crash;
  }
}

/** An error message for a terminal: what is wrong and what to do. It has a stack only if the mistake is ours. */
function explainError(error: unknown): string {
  if (error instanceof GatewayError && error.status < 500) return `${error.code}: ${error.message}`;
  if (error instanceof GatewayError) return error.message;
  const expected = error instanceof Error && !(error instanceof TypeError || error instanceof RangeError);
  return expected ? error.message : String((error as Error)?.stack ?? error);
}

const afterHelp = `
Every command has its own --help with examples. start --help lists the environment variables.
Exit codes: 0 for success, 1 if the gateway refused or a delivery failed, 2 if the command was typed wrongly.
doctor has exit codes of its own.`;

/**
 * The command line, with a command for each thing it does. It prints on `terminal` and throws instead of ending the
 * process: a CommanderError after help or a command typed wrongly.
 * @param args what was typed: what it does not name is not read from openapi.yaml. @default every command is whole
 */
export function createProgram(terminal: Terminal, args?: readonly string[]): Command {
  const isNamed = (name: string) => args?.includes(name) ?? true;
  const program = new Command('express-model-gateway')
    .description('A stand-alone gateway for language models with signed account webhooks')
    .version(readVersion(), '--version')
    .addHelpText('after', afterHelp);
  const here = [startCommand, listenCommand, migrateCommand, doctorCommand, resealCommand];
  const throughApi = [...resourceCommands(terminal, isNamed), apiCommand(terminal)];
  program.commandsGroup('On this machine:');
  for (const make of here) program.addCommand(make(terminal));
  program.commandsGroup('Through the API of a gateway (--base-url, --api-key):');
  for (const command of throughApi) program.addCommand(command);
  if (isNamed('publish')) program.addCommand(publishStoredCommand(terminal), { hidden: true });
  for (const command of everyCommand(program)) {
    command
      .exitOverride()
      .showHelpAfterError('(--help shows how it is used, with examples)')
      .configureOutput({
        writeOut: (text) => terminal.print(text.trimEnd()),
        writeErr: (text) => terminal.printNote(text.trimEnd()),
      });
  }
  return program;
}

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}
