// pino is fast, typed and maintained, and bundled, so no host installs it. Its transports are not used: they run in a worker
// thread, from files that a bundle does not have. pino-pretty, with 17 packages, would nearly double pino's 150 kB for what
// `readableLine` does.
import { pino } from 'pino';
import type { Logger } from '../../index.ts';
import type { Configuration } from '../config/config.ts';
import { localTime } from '../terminal/moments.ts';
import { coloured, type Paint, plain, type Style } from '../terminal/paint.ts';
import { printable } from '../terminal/printable.ts';
import { stderrLines } from './stderr-lines.ts';

/** How the stand-alone server logs. */
export interface LogSettings {
  readonly level: Configuration['logLevel'];
  /** Lines for people, with colours or without. @default JSON, a line an object */
  readonly readable?: { readonly colours: boolean };
}

/** Where the lines go. */
export interface LogTarget {
  write(line: string): void;
}

const levelStyles: Readonly<Record<string, Style>> = { error: 'red', warn: 'yellow', info: 'cyan' };

function valueText(value: unknown): string {
  const text = typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
  return printable(text);
}

/** A line of pino's as people read it: time, level, message, and the fields as `name=value`. */
function readableLine(json: string, paint: Paint): string {
  const { time, level, msg, pid: _pid, hostname: _hostname, ...fields } = JSON.parse(json);
  const named = Object.entries(fields).map(([name, value]) => `${paint('dim', `${name}=`)}${valueText(value)}`);
  const shownLevel = paint(levelStyles[level] ?? 'dim', level.padEnd(5));
  return [paint('dim', localTime(time)), shownLevel, printable(msg), ...named].join(' ');
}

/**
 * The logger of the stand-alone server. It writes to stderr: stdout is for what people and scripts read at the start.
 * @param target @default stderr
 */
export function createLogger(settings: LogSettings, target?: LogTarget): Logger {
  if (target) return toLogger(settings, target);
  if (settings.readable) return toLogger(settings, process.stderr);
  const lines = stderrLines();
  const logger = toLogger(settings, lines);
  lines.onLost((count) => logger.warn({ lines: count }, 'log lines were lost: stderr took no more'));
  return logger;
}

function toLogger({ level, readable }: LogSettings, target: LogTarget) {
  const paint = readable?.colours ? coloured : plain;
  const lines = readable ? { write: (json: string) => target.write(`${readableLine(json, paint)}\n`) } : target;
  return pino(
    { level, timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (label) => ({ level: label }) } },
    lines,
  );
}
