// pino is fast, typed and maintained, and bundled, so no host installs it. Its transports are not used: they run in a worker
// thread, from files that a bundle does not have. pino-pretty, with 17 packages, would nearly double pino's 150 kB for what
// `readableLine` does.
import { pino } from 'pino';
import type { Logger } from '../../index.ts';
import type { Configuration } from '../config/config.ts';
import { coloured, type Paint, plain, type Style } from '../terminal/terminal.ts';
import { localTime, printable } from '../terminal/text.ts';

export interface LogSettings {
  readonly level: Configuration['logLevel'];
  /** Lines for people, with colours or without. @default JSON, a line an object */
  readonly readable?: { readonly colours: boolean };
  /** A field whose lines are left out, because the start prints what they say. @default none is left out */
  readonly printedField?: string;
}

interface LogTarget {
  write(line: string): unknown;
}

/**
 * The logger of the stand-alone server. It writes to stderr: stdout is for what people and scripts read at the start.
 * @param target @default stderr
 */
export function createLogger({ level, readable, printedField }: LogSettings, target?: LogTarget): Logger {
  const onLost = (lines: number) => logger.warn({ lines }, 'log lines were lost: stderr took no more');
  const sink = target ?? (readable ? process.stderr : stderrLines(onLost));
  const paint = readable?.colours ? coloured : plain;
  const lines = readable ? { write: (json: string) => sink.write(`${readableLine(json, paint)}\n`) } : sink;
  const formatters = { level: (label: string) => ({ level: label }) };
  const timestamp = pino.stdTimeFunctions.isoTime;
  const hooks = printedField === undefined ? {} : { hooks: { logMethod: withoutLinesOf(printedField) } };
  const logger: pino.Logger = pino({ level, timestamp, formatters, ...hooks }, lines);
  return logger;
}

type LogMethod = NonNullable<NonNullable<pino.LoggerOptions['hooks']>['logMethod']>;

function withoutLinesOf(field: string): LogMethod {
  return function logMethod(args, log) {
    if (!Object.hasOwn(Object(args[0]), field)) log.apply(this, args);
  };
}

const levelStyles: Readonly<Record<string, Style>> = { error: 'red', warn: 'yellow', info: 'cyan' };

/** A line of pino's as people read it: time, level, message, and the fields as `name=value`. */
function readableLine(json: string, paint: Paint): string {
  const { time, level, msg, pid: _pid, hostname: _hostname, ...fields } = JSON.parse(json);
  const named = Object.entries(fields).map(([name, value]) => `${paint('dim', `${name}=`)}${valueText(value)}`);
  const shownLevel = paint(levelStyles[level] ?? 'dim', level.padEnd(5));
  return [paint('dim', localTime(time)), shownLevel, printable(msg), ...named].join(' ');
}

function valueText(value: unknown): string {
  const text = typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
  return printable(text);
}

/** What waits for a reader of stderr that does not read. Bytes. */
const longestBacklog = 8 * 1024 * 1024;

/**
 * Writes lines to stderr without waiting, and what is left when the process ends. A full disk or a reader that stands still
 * costs lines, never the process.
 * @param onLost called, once stderr takes lines again, with how many were lost because it took none
 */
function stderrLines(onLost: (lines: number) => void): LogTarget {
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
  destination.on('drain', () => {
    const lines = lost;
    lost = 0;
    if (lines > 0) onLost(lines);
  });
  const flushSync = destination.flushSync.bind(destination);
  destination.flushSync = () => {
    if (!isFailing) flushSync();
  };
  return destination;
}
