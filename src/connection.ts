import mongoose, { type Connection } from 'mongoose';
import { GatewayError } from './errors.ts';

/** The database, and how to let go of it. */
export interface Database {
  readonly connection: Connection;
  /** Closes the connection if the gateway opened it; leaves a host's own connection alone. */
  close(): Promise<void>;
}

/**
 * Opens a URI, or waits for a host's own connection to be ready.
 * @throws GatewayError `invalid_options` when the database cannot be reached
 */
export async function openDatabase(mongo: Connection | string): Promise<Database> {
  if (typeof mongo !== 'string') {
    await mongo.asPromise();
    return { connection: mongo, async close() {} };
  }
  const connection = mongoose.createConnection(mongo, { serverSelectionTimeoutMS: 10_000 });
  try {
    await connection.asPromise();
  } catch (cause) {
    await connection.close();
    throw new GatewayError('invalid_options', 'mongo: the database cannot be reached; check the URI and the server', {
      param: 'mongo',
      cause,
    });
  }
  return { connection, close: () => connection.close() };
}
