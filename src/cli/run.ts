import { CommanderError } from 'commander';
import { GatewayError } from '../errors.ts';
import { createProgram } from './program.ts';
import { CommandFailure, type FailureCode } from './terminal/command-failure.ts';
import { printableLines } from './terminal/printable.ts';
import type { Terminal } from './terminal/terminal.ts';

/** An error message for a terminal: what is wrong and what to do. It has a stack only if the mistake is ours. */
function explainError(error: unknown): string {
  if (error instanceof GatewayError && error.status < 500) return `${error.code}: ${error.message}`;
  if (error instanceof GatewayError) return error.message;
  const expected = error instanceof Error && !(error instanceof TypeError || error instanceof RangeError);
  return expected ? error.message : String((error as Error)?.stack ?? error);
}

/** `doctor` says with 1 and 2 what it has found. What keeps it from looking must be neither. */
const codesOf = (command: string | undefined) =>
  command === 'doctor' ? ({ typo: 3, crash: 3 } as const) : ({ typo: 2, crash: 1 } as const);

/**
 * Runs a command to its end.
 * @param args what was typed after the program's name
 * @returns the exit code: 0, 1 where something failed, 2 where the command was typed wrongly; 3 where `doctor` could not check
 */
export async function runCommand(args: readonly string[], terminal: Terminal): Promise<0 | FailureCode> {
  const { typo, crash } = codesOf(args[0]);
  try {
    await createProgram(terminal).parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    // commander has printed what was wrong, or the help
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : typo;
    for (const line of printableLines(explainError(error))) terminal.printNote(line);
    return error instanceof CommandFailure ? error.exitCode : crash;
  }
}
