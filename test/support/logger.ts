import type { Logger } from '../../src/index.ts';

/** Forgets what it is told. */
export const silentLogger = { info() {}, warn() {}, error() {} } satisfies Logger;

export interface LogLine {
  readonly level: 'info' | 'warn' | 'error';
  readonly message: string;
  readonly fields?: Readonly<Record<string, unknown>> | undefined;
}

/** A logger that keeps what it is told. */
export function recordingLogger(): Logger & { readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at = (level: LogLine['level']) => (message: string, fields?: Readonly<Record<string, unknown>>) =>
    void lines.push({ level, message, fields });
  return { lines, info: at('info'), warn: at('warn'), error: at('error') };
}
