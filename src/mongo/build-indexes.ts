import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from 'mongoose';
import { GatewayError } from '../errors.ts';
import type { Logger } from '../options/options.ts';
import { isUnavailable } from './unavailable.ts';

/** How long a database without a primary is waited for: several elections. Milliseconds. */
const longestWait = 20_000;
/** How soon it is tried again. Milliseconds. */
const retryDelay = 200;

interface BuildDeps {
  readonly connection: Connection;
  readonly logger: Pick<Logger, 'info'>;
  /** Milliseconds; 20,000 unless a test says otherwise. */
  readonly availableWithin?: number;
}

/** Whether only the connection was silent for too long: the database answers on another one. */
async function isStillBuilding(error: unknown, connection: Connection): Promise<boolean> {
  if ((error as Error).name !== 'MongoNetworkTimeoutError') return false;
  try {
    await connection.getClient().db('admin').command({ ping: 1 });
    return true;
  } catch (pingError) {
    if (isUnavailable(pingError)) return false;
    throw pingError;
  }
}

/**
 * Builds indexes, however long that takes: more than a connection may be silent for, where a collection is large. The
 * database goes on with a build that nobody waits for any more, and the same command, given again, waits for it. An election
 * meanwhile is waited for.
 * @throws GatewayError `invalid_options` when the database has had no primary, or not answered, for 20 s; what `build` rejects
 * with, when that is anything else
 */
export async function buildIndexes(
  build: () => Promise<unknown>,
  { connection, logger, availableWithin = longestWait }: BuildDeps,
): Promise<void> {
  let isSlow = false;
  let unavailableSince: number | undefined;
  for (;;) {
    try {
      await build();
      return;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      if (await isStillBuilding(error, connection)) {
        if (!isSlow) logger.info('indexes are being built; the gateway starts when they are there');
        isSlow = true;
        unavailableSince = undefined;
        continue;
      }
      unavailableSince ??= performance.now();
      if (performance.now() - unavailableSince > availableWithin) {
        const message = 'mongo: the database has no primary that takes writes; check the replica set, and start again';
        throw new GatewayError('invalid_options', message, { param: 'mongo', cause: error });
      }
      await sleep(retryDelay);
    }
  }
}
