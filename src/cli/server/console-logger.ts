import type { Logger } from '../../index.ts';

function line(level: string, message: string, fields?: Readonly<Record<string, unknown>>): string {
  return `${level}: ${message}${fields ? ` ${JSON.stringify(fields)}` : ''}`;
}

/** Warnings and errors, a line each, on stderr: stdout is for what scripts read. */
export const consoleLogger: Logger = {
  info() {},
  warn(message, fields) {
    console.error(line('warning', message, fields));
  },
  error(message, fields) {
    console.error(line('error', message, fields));
  },
};
