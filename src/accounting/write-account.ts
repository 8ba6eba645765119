import type { ClientSession } from 'mongoose';
import type { AccountTurns } from '../fairness/account-shares.ts';
import { longestDatabaseWait, type RunInTransaction } from '../mongo/connection/availability.ts';
import { TimeoutError } from '../mongo/periodic.ts';
import { isDuplicateKey } from '../mongo/writes.ts';

/** With less time left, a transaction would only hinder the caller's next try. Milliseconds. */
const leastLeft = 500;
/** How often a transaction that met a duplicate key is run again. */
const maxRetries = 3;

/**
 * Runs a transaction that writes one account's balance. If another process inserts the same document at the same moment, runs it
 * again: now it finds that document.
 */
export type WriteAccount = <T>(userId: string, write: (session: ClientSession | undefined) => Promise<T>) => Promise<T>;

/**
 * @param turns lets top-ups, payments and the opening of one account's balance run one after the other in this process: at the
 *   same time they would abort each other's transactions. @default all transactions run at once
 */
export function createWriteAccount(transaction: RunInTransaction, turns?: AccountTurns): WriteAccount {
  async function writeInTurn<T>(userId: string, write: (session: ClientSession | undefined) => Promise<T>): Promise<T> {
    if (!turns) return transaction(write);
    const askedAt = performance.now();
    return turns.run(userId, async () => {
      const remaining = longestDatabaseWait - (performance.now() - askedAt);
      if (remaining < leastLeft) throw new TimeoutError('others wrote the balance for too long');
      return transaction(write, remaining);
    });
  }

  return async function writeAccount(userId, write) {
    for (let retriesLeft = maxRetries; ; retriesLeft -= 1) {
      try {
        return await writeInTurn(userId, write);
      } catch (error) {
        if (!isDuplicateKey(error) || retriesLeft === 0) throw error;
      }
    }
  };
}
