import { createInterface } from 'node:readline/promises';
import { text } from 'node:stream/consumers';
import { stripVTControlCharacters } from 'node:util';
import { coloured, plain } from './paint.ts';
import type { Terminal } from './terminal.ts';
import { untilSignal } from './until-signal.ts';

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
    readInput: () => text(process.stdin),
    now: Date.now,
    interruption,
  };
}
