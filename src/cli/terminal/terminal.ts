import type { Paint } from './paint.ts';

/** Where a command prints, and what it may ask the user. Tests pass their own. */
export interface Terminal {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Prints a line of the result: stdout, all that a program reads. */
  print(line: string): void;
  /** Prints a line for people, on stderr. */
  printNote(line: string): void;
  /** Replaces its last line on stderr; absent where stderr is no terminal. */
  readonly redraw?: (line: string) => void;
  /** Colours for stdout. */
  readonly paint: Paint;
  /** Asks for one line; absent where stdin is no terminal. */
  readonly ask?: (question: string) => Promise<string>;
  /** Everything on stdin. */
  readInput(): Promise<string>;
  /** Milliseconds since 1970. */
  now(): number;
  /** From now on Ctrl-C and SIGTERM abort this signal instead of ending the process; a second one ends it. */
  interruption(): AbortSignal;
}
