import { pino } from 'pino';

/** What waits for a reader of stderr that does not read. Bytes. */
const longestBacklog = 8 * 1024 * 1024;

export interface StderrLines {
  write(line: string): void;
  /** Calls it, once stderr takes lines again, with how many were lost because it took none. */
  onLost(listener: (lines: number) => void): void;
}

/**
 * Writes lines to stderr without waiting, and what is left when the process ends. A full disk or a reader that stands still
 * costs lines, never the process.
 */
export function stderrLines(): StderrLines {
  const destination = pino.destination({ dest: 2, sync: false, maxLength: longestBacklog });
  let isFailing = false;
  let lost = 0;
  // an error without a listener would end the process, and at its end sonic-boom would try the same write without end
  destination.on('error', () => {
    isFailing = true;
  });
  destination.on('write', () => {
    isFailing = false;
  });
  destination.on('drop', () => {
    lost += 1;
  });
  const flushSync = destination.flushSync.bind(destination);
  destination.flushSync = () => {
    if (!isFailing) flushSync();
  };
  return {
    write: (line) => void destination.write(line),
    onLost(listener) {
      destination.on('drain', () => {
        if (lost === 0) return;
        const lines = lost;
        lost = 0;
        listener(lines);
      });
    },
  };
}
