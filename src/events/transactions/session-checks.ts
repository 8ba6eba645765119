import type { ClientSession, Connection } from 'mongoose';
import { GatewayError, refuse } from '../../errors.ts';

interface WriteConcern {
  readonly w?: number | string | undefined;
  readonly j?: boolean | undefined;
  readonly journal?: boolean | undefined;
}

/** Refuses a transaction that could lose acknowledged writes. */
export type RequireMajority = (session: ClientSession) => Promise<void>;

function isWeak({ w, j, journal }: WriteConcern): boolean {
  return w !== 'majority' || j === false || journal === false;
}

/** The write concern with which the session's transaction was started. The driver keeps it, but its types do not show it. */
function writeConcernOf(session: ClientSession): WriteConcern {
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
 * Refuses sessions in a transaction whose write concern is not majority. Without a write concern, the server's default counts:
 * majority since MongoDB 5.0, unless an administrator changed it.
 */
export function createMajorityCheck(connection: Connection): RequireMajority {
  async function serverDefault(): Promise<WriteConcern> {
    const admin = connection.getClient().db('admin');
    try {
      const { defaultWriteConcern } = await admin.command({ getDefaultRWConcern: 1 });
      return defaultWriteConcern ?? { w: 'majority' };
    } catch {
      // not every user may ask; the default of every supported server is majority
      return { w: 'majority' };
    }
  }

  return async function requireMajority(session) {
    if (!session.inTransaction()) return;
    const concern = writeConcernOf(session);
    if (isWeak(concern.w === undefined ? { ...concern, w: (await serverDefault()).w } : concern)) throw weak();
  };
}

/** The client that has started a session. The driver keeps it, but its types do not show it. */
interface Started {
  readonly client?: unknown;
}

/**
 * Refuses a session of another connection: what is written under it cannot be in one transaction with the event.
 * @throws GatewayError `invalid_value`
 */
export function requireOwnClient(connection: Connection, session: ClientSession): void {
  const { client } = session as unknown as Started;
  if (client === connection.getClient()) return;
  refuse(
    'invalid_value',
    'session',
    'must be of the connection that the option mongo names; start it with connection.startSession()',
  );
}
