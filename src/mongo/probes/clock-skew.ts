import type { Connection } from 'mongoose';
import { withTimeout } from '../periodic.ts';

/** How far this machine's clock may be from the database's: receivers refuse signatures that are five minutes old. Milliseconds. */
export const longestSkew = 10_000;

/** The database's clock, and this machine's before it was asked and after it answered. Milliseconds since 1970. */
interface ClockReading {
  readonly askedAt: number;
  readonly localTime: Date;
  readonly answeredAt: number;
}

/** By how much this machine is certainly ahead of the database; negative where it is behind. Milliseconds. */
export function clockSkew({ askedAt, localTime, answeredAt }: ClockReading): number {
  const [ahead, behind] = [askedAt - localTime.getTime(), localTime.getTime() - answeredAt];
  return behind > 0 ? -behind : Math.max(0, ahead);
}

/** How long the database may take to answer. Milliseconds. */
const longestRead = 1_000;

/**
 * Makes the function that asks the primary for its time, and says by how much this machine is ahead of it, in milliseconds, as
 * {@link clockSkew} does; `undefined` where no primary answers within a second.
 */
export function createReadSkew(connection: Connection): () => Promise<number | undefined> {
  const admin = connection.getClient().db('admin', { readPreference: 'primary' });
  return async function readSkew() {
    const askedAt = Date.now();
    try {
      const { localTime, isWritablePrimary } = await withTimeout(admin.command({ hello: 1 }), longestRead, false);
      return isWritablePrimary ? clockSkew({ askedAt, localTime, answeredAt: Date.now() }) : undefined;
    } catch {
      return undefined;
    }
  };
}
