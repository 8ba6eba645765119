import type { Command } from 'commander';
import { createProgram, runCommand } from '../../src/cli/program.ts';
import { coloured, type Paint, plain, type Terminal } from '../../src/cli/terminal/terminal.ts';

/** What sits at a recorded terminal. */
export interface Setting {
  readonly env?: Readonly<Record<string, string>>;
  readonly colours?: boolean;
  /** What is answered to every question; nobody sits there when it is left out. */
  readonly answer?: string;
  readonly input?: string | Buffer;
}

/** A terminal that keeps what is printed on it, for commands that run in the process of the test. */
export class RecordedTerminal implements Terminal {
  stdout = '';
  stderr = '';
  readonly questions: string[] = [];
  readonly redrawn: string[] = [];
  readonly env: Readonly<Record<string, string>>;
  readonly paint: Paint;
  readonly ask?: (question: string) => Promise<string>;
  private readonly input: string | Buffer;
  private readonly interrupted = new AbortController();

  constructor({ env = {}, colours = false, answer, input = '' }: Setting = {}) {
    this.env = env;
    this.paint = colours ? coloured : plain;
    this.input = input;
    if (answer !== undefined) {
      this.ask = async (question) => {
        this.questions.push(question);
        return answer;
      };
    }
  }

  readonly print = (line: string): void => {
    this.stdout += `${line}\n`;
  };
  readonly printNote = (line: string): void => {
    this.stderr += `${line}\n`;
  };
  readonly redraw = (line: string): void => {
    this.redrawn.push(line);
  };
  readonly readInput = async (): Promise<Buffer> => Buffer.from(this.input);
  readonly now = (): number => Date.now();
  readonly interruption = (): AbortSignal => this.interrupted.signal;

  /** Ctrl-C. */
  interrupt(): void {
    this.interrupted.abort();
  }

  /** Runs a command here. */
  run(...args: readonly string[]): Promise<number> {
    return runCommand(args, this);
  }
}

/** What a command left behind. */
export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
  readonly json: any;
}

/** Runs one command on a terminal of its own. */
export async function command(args: readonly string[], setting?: Setting): Promise<Outcome> {
  const terminal = new RecordedTerminal(setting);
  const code = await terminal.run(...args);
  const { stdout, stderr } = terminal;
  return {
    code,
    stdout,
    stderr,
    get json() {
      return JSON.parse(stdout);
    },
  };
}

/** The words that lead to each command that does something. */
export function everyCommand(
  at: Command = createProgram(new RecordedTerminal()),
  words: readonly string[] = [],
): string[][] {
  if (at.commands.length === 0) return [[...words]];
  return at.commands.flatMap((below) => everyCommand(below, [...words, below.name()]));
}
