import type { Connection } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import type { ResolvedOptions } from '../../options/options.ts';

interface Hello {
  readonly setName?: string;
  /** `isdbgrid` from a mongos, which means a sharded cluster of replica sets. */
  readonly msg?: string;
}

/** What a host may do about a standalone mongod; the command has no such option. */
export const orAllowStandalone = ', or set allowStandalone to accept that';

/**
 * Refuses a standalone mongod, which has no majority to keep a write, and no transactions.
 * @returns whether transactions are possible
 * @throws GatewayError `invalid_options` unless `allowStandalone` is set; then it logs a warning
 */
export async function requireReplicaSet(
  connection: Connection,
  { allowStandalone, logger }: Pick<ResolvedOptions, 'allowStandalone' | 'logger'>,
): Promise<boolean> {
  const { setName, msg } = (await connection.getClient().db('admin').command({ hello: 1 })) as Hello;
  if (setName !== undefined || msg === 'isdbgrid') return true;
  if (!allowStandalone) {
    throw new GatewayError(
      'invalid_options',
      'mongo: this is a standalone mongod: an event acknowledged by it can be lost with its disk, and there are no ' +
        `transactions; start it with --replSet and run rs.initiate() once${orAllowStandalone}`,
      { param: 'mongo' },
    );
  }
  logger.warn('mongo is a standalone mongod: acknowledged writes can be lost with its disk; no transactions');
  return false;
}
