/**
 * The exit code: 1 where it was refused or failed, 2 where the command was typed wrongly. `doctor`: 1 for warnings, 2 for a failed
 * check, 3 where it was typed wrongly or could not check.
 */
export type ExitCode = 1 | 2 | 3;

/** Ends a command with a message for its user, and an exit code. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure';
  readonly exitCode: ExitCode;
  /** The value of the request that the gateway refused. */
  readonly param: string | undefined;

  /** @param message what is wrong, and on lines of their own what to do */
  constructor(message: string, exitCode: ExitCode = 1, options?: ErrorOptions & { readonly param?: string | null }) {
    super(message, options);
    this.exitCode = exitCode;
    this.param = options?.param ?? undefined;
  }
}

/** The gateway could not be reached, or is busy: the same command may succeed a moment later. */
export class PassingFailure extends CommandFailure {}

/** The command was typed wrongly: exit code 2. */
export function wrongUse(message: string): CommandFailure {
  return new CommandFailure(message, 2);
}
