import { callUnawaited, refuse } from '../errors.ts';

/** Where the gateway writes what an operator should see, such as pino or the console. Never given a secret, a key or a body. */
export interface Logger {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** Warnings and errors to the console. */
export const consoleLogger: Logger = {
  info() {},
  warn: (message, fields) => console.warn(`express-model-gateway: ${message}`, fields ?? ''),
  error: (message, fields) => console.error(`express-model-gateway: ${message}`, fields ?? ''),
};

const levels = ['info', 'warn', 'error'] as const;

type PinoMethod = (fields: object, message: string) => unknown;

/** Whether a logger is pino, or a child of it, which takes the fields first and drops those that come after the message. */
function isPino(logger: Logger): boolean {
  const { bindings, levels: names } = logger as Logger & { readonly bindings?: unknown; readonly levels?: unknown };
  return typeof bindings === 'function' && typeof names === 'object';
}

/**
 * The host's logger as the gateway uses it: if it fails, at once or later, nothing changes. The console shows its first
 * failure.
 * @throws GatewayError `invalid_options` when it is no logger
 */
export function faultTolerant(logger: Logger): Logger {
  for (const level of levels) {
    if (typeof logger?.[level] !== 'function') {
      refuse('invalid_options', 'logger', `must have the functions ${levels.join(', ')}`);
    }
  }
  const takesFieldsFirst = isPino(logger);
  let reported = false;
  const report = (error: string): void => {
    if (!reported) consoleLogger.error("the host's logger failed", { error });
    reported = true;
  };
  const at =
    (level: (typeof levels)[number]): Logger['info'] =>
    (message, fields) =>
      callUnawaited(
        () =>
          takesFieldsFirst
            ? (logger[level] as unknown as PinoMethod).call(logger, fields ?? {}, message)
            : logger[level](message, fields),
        report,
      );
  return { info: at('info'), warn: at('warn'), error: at('error') };
}
