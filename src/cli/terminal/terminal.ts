import { createInterface } from 'node:readline/promises';
import { buffer } from 'node:stream/consumers';
import { stripVTControlCharacters, styleText } from 'node:util';

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
  readInput(): Promise<Buffer>;
  /** Milliseconds since 1970. */
  now(): number;
  /** From now on Ctrl-C and SIGTERM abort this signal instead of ending the process; a second one ends it. */
  interruption(): AbortSignal;
}

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** Gives text a style, or leaves it as it is where there are no colours. */
export type Paint = (style: Style, text: string) => string;

export const plain: Paint = (_style, text) => text;

// whether there are colours has been decided for the whole terminal
export const coloured: Paint = (style, text) => styleText(style, text, { validateStream: false });

/** The terminal, or the pipes, of this process. */
export function processTerminal(): Terminal {
  // `… | head` is no failure
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));
  return {
    env: process.env,
    print: (line) => process.stdout.write(`${line}\n`),
    printNote: (line) => process.stderr.write(`${line}\n`),
    ...(process.stderr.isTTY && { redraw }),
    // NO_COLOR, FORCE_COLOR and TERM are honoured by hasColors
    paint: process.stdout.isTTY && process.stdout.hasColors() ? coloured : plain,
    ...(process.stdin.isTTY && process.stderr.isTTY && { ask }),
    readInput: () => buffer(process.stdin),
    now: Date.now,
    interruption,
  };
}

async function ask(question: string): Promise<string> {
  const reader = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await reader.question(question);
  } finally {
    reader.close();
  }
}

function interruption(): AbortSignal {
  const interrupted = new AbortController();
  void untilSignal(process.ppid).then(() => interrupted.abort());
  return interrupted.signal;
}

/** Only the last line is written over, so it must fit the width. */
function redraw(line: string): void {
  const room = (process.stderr.columns || 80) - 1;
  process.stderr.write(`\r\u001b[K${stripVTControlCharacters(line).slice(0, room)}`);
}

/** npm passes Ctrl-C on to a process that already has it from the terminal: two signals this close are one. Milliseconds. */
const echoOfNpm = 1_000;
const parentInterval = 250;

/**
 * Resolves at Ctrl-C or SIGTERM, the one that only npm got too. Another signal ends the process at once; under
 * npm, one that comes a second or more later.
 * @param parent `process.ppid` as it was when the process began
 */
export function untilSignal(parent: number): Promise<void> {
  return new Promise((resolve) => {
    const isUnderNpm = process.env.npm_lifecycle_event !== undefined;
    const echo = isUnderNpm ? echoOfNpm : 0;
    let first: number | undefined;
    const onSignal = () => {
      if (first !== undefined && Date.now() - first >= echo) process.exit(130);
      first ??= Date.now();
      resolve();
    };
    // never removed: without a handler the next signal would end the process before mongod has stopped
    process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
    if (!isUnderNpm) return;
    // the shell in which npm runs a script ends at SIGTERM without passing it on: the only sign is another parent process
    const looking = setInterval(() => {
      if (process.ppid === parent) return;
      clearInterval(looking);
      resolve();
    }, parentInterval);
    looking.unref();
  });
}
