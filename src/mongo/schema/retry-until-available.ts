import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import type { Logger } from '../../options/options.ts';
import { isUnavailable } from '../unavailable.ts';

/** How long to wait for a primary: several elections. Milliseconds. */
const longestRetry = 20_000;
/** The wait between tries. Milliseconds. */
const retryDelay = 200;

interface RetryDeps {
  readonly connection: Connection;
  readonly logger: Pick<Logger, 'info'>;
  /** How long to wait for a primary. Milliseconds. @default 20_000 */
  readonly availableWithin?: number;
}

/** Whether only this connection was silent for too long: the database answers on another one. */
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
 * Prepares the database and, where that fails because the database is silent or has no primary, tries again. The index of a
 * large collection takes longer than a connection may be silent: the database continues a build whose connection has closed,
 * and the repeated command waits for it.
 * @param prepare may be called again
 * @throws GatewayError `invalid_options` if the database has had no primary, or not answered, for 20 s; any other rejection
 * of `prepare` as it is
 */
export async function retryUntilAvailable<T>(
  prepare: () => Promise<T>,
  { connection, logger, availableWithin = longestRetry }: RetryDeps,
): Promise<T> {
  let isSlow = false;
  let unavailableSince: number | undefined;
  for (;;) {
    try {
      return await prepare();
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      if (await isStillBuilding(error, connection)) {
        if (!isSlow) logger.info('indexes are being built; waiting until they are there');
        isSlow = true;
        unavailableSince = undefined;
        continue;
      }
      unavailableSince ??= performance.now();
      if (performance.now() - unavailableSince > availableWithin) {
        const message = 'mongo: the database has no primary that takes writes; check the replica set, and try again';
        throw new GatewayError('invalid_options', message, { param: 'mongo', cause: error });
      }
      await sleep(retryDelay);
    }
  }
}
