import { type Environment, readSettings, type Settings, settingOf } from './environment.ts';
import { gatewayOptions } from './gateway-options.ts';
import { omitUndefined } from './omit-undefined.ts';

/** What a command needs that uses the database of a gateway instead of its API. */
export interface DatabaseSettings {
  readonly dataDir: string;
  /** Absent: the embedded database. */
  readonly mongodbUri?: string;
  /** Absent: the key in `dataDir`. */
  readonly secretKeys?: readonly string[];
  /** The options that the environment sets; the others keep the package's defaults. */
  readonly options: ReturnType<typeof gatewayOptions>;
}

/** The part of the settings that is about the database. */
export function databaseSettings(settings: Settings): DatabaseSettings {
  return {
    dataDir: settingOf(settings, 'DATA_DIR'),
    ...omitUndefined({ mongodbUri: settings.MONGODB_URI, secretKeys: settings.SECRET_KEYS }),
    options: gatewayOptions(settings),
  };
}

/**
 * Reads how the database of a gateway is reached.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readDatabaseSettings(env: Environment): DatabaseSettings {
  return databaseSettings(readSettings(env));
}
