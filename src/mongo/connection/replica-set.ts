import type { Connection } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import type { ResolvedOptions } from '../../options/options.ts';

interface Hello {
  readonly setName?: string;
  /** `isdbgrid` from a mongos, which stands for a sharded cluster of replica sets. */
  readonly msg?: string;
}

/**
 * Refuses a standalone mongod, on which there is no majority that could keep a write, and no transaction.
 * @returns whether there are transactions
 * @throws GatewayError `invalid_options` unless `allowStandalone` says that this is known; then it is logged
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
        'transactions; start it with --replSet and run rs.initiate() once, or set allowStandalone to accept that',
      { param: 'mongo' },
    );
  }
  logger.warn('mongo is a standalone mongod: what it acknowledges can be lost with its disk; no transactions');
  return false;
}
