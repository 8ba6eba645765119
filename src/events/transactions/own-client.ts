import type { ClientSession, Connection } from 'mongoose';
import { GatewayError } from '../../errors.ts';

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
  const message =
    'session: must be of the connection that the option mongo names; start it with connection.startSession()';
  throw new GatewayError('invalid_value', message, { param: 'session' });
}
