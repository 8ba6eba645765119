import type { Connection } from 'mongoose';
import type { Logger } from '../../options/options.ts';
import { createPeriodic, type Periodic } from '../periodic.ts';
import { poolsOf } from './pools.ts';

type Client = ReturnType<Connection['getClient']>;

interface DriverConnection {
  readonly closed?: boolean;
  readonly socket?: NodeJS.EventEmitter & { readonly destroyed?: boolean };
}

/** How often forgotten commands are looked for. Milliseconds. */
const interval = 2_000;

function* checkedOut(client: Client): Iterable<DriverConnection> {
  for (const { checkedOutConnections = [] } of poolsOf(client)) {
    yield* checkedOutConnections as Iterable<DriverConnection>;
  }
}

/**
 * The driver (mongodb 7.8) never settles a command whose connection is closed while the command waits to be written: it
 * listens for `drain` and `error`, and the destroyed socket emits neither. The command keeps its place in the pool for good, and
 * when no place is left, every command hangs. No public API leads to those connections, so this reads the driver's own
 * objects; if they have another form, it does nothing.
 * @returns the periodic check
 */
export function createForgottenCommands(client: Client, logger: Pick<Logger, 'warn'>): Periodic {
  function settle(): void {
    for (const { closed, socket } of [...checkedOut(client)]) {
      const isForgotten = closed === true && socket?.destroyed === true && socket.listenerCount('drain') > 0;
      if (isForgotten)
        socket.emit('error', Object.assign(new Error('the connection was closed'), { code: 'ERR_STREAM_DESTROYED' }));
    }
  }
  return createPeriodic({ name: 'settling forgotten commands', task: settle, interval, logger });
}
