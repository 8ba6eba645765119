/** Where the gateway writes what an operator should see. Never given a secret, a key or a body. */
export interface Logger {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** Warnings and errors to the console. */
export const consoleLogger: Logger = {
  info() {},
  warn(message, fields) {
    console.warn(`express-model-gateway: ${message}`, fields ?? '');
  },
  error(message, fields) {
    console.error(`express-model-gateway: ${message}`, fields ?? '');
  },
};
