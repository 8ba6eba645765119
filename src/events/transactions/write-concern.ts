import type { ClientSession, Connection } from 'mongoose';
import { GatewayError } from '../../errors.ts';

interface WriteConcern {
  readonly w?: number | string | undefined;
  readonly j?: boolean | undefined;
  readonly journal?: boolean | undefined;
}

/** Makes sure that a caller's transaction cannot lose what it acknowledged. */
export type RequireMajority = (session: ClientSession) => Promise<void>;

function isWeak({ w, j, journal }: WriteConcern): boolean {
  return w !== 'majority' || j === false || journal === false;
}

/** What the session's transaction was started with. The driver keeps it, but its types do not show it. */
function statedBy(session: ClientSession): WriteConcern {
  const { transaction } = session as unknown as { transaction?: { options?: { writeConcern?: WriteConcern } } };
  return transaction?.options?.writeConcern ?? {};
}

function weak(): GatewayError {
  return new GatewayError(
    'weak_write_concern',
    "session: its transaction is acknowledged by less than a majority and could lose the event; start it with { writeConcern: { w: 'majority' } }",
    { param: 'session' },
  );
}

/**
 * Refuses sessions in a transaction whose write concern is not majority. Where the transaction states none, the
 * server's default counts, which is majority since MongoDB 5.0 unless somebody changed it.
 */
export function createMajorityCheck(connection: Connection): RequireMajority {
  async function serverDefault(): Promise<WriteConcern> {
    const admin = connection.getClient().db('admin');
    try {
      const { defaultWriteConcern } = await admin.command({ getDefaultRWConcern: 1 });
      return defaultWriteConcern ?? { w: 'majority' };
    } catch {
      // not every user may ask; the default of every server we support is majority
      return { w: 'majority' };
    }
  }

  return async function requireMajority(session) {
    if (!session.inTransaction()) return;
    const stated = statedBy(session);
    if (isWeak(stated.w === undefined ? { ...stated, w: (await serverDefault()).w } : stated)) throw weak();
  };
}
