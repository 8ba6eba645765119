import type { ClientSession } from 'mongoose';
import { AccountTurns } from '../fairness/account-turns.ts';
import { longestDatabaseWait } from '../mongo/connection/availability.ts';
import { TimeoutError } from '../mongo/periodic.ts';
import type { RunInTransaction } from '../mongo/transaction.ts';
import { isDuplicateKey } from '../mongo/writes.ts';

/** With less time left, a transaction would only hinder the caller's next try. Milliseconds. */
const leastLeft = 500;
/** How often a transaction that met a duplicate key is run again. */
const maxRetries = 3;

/**
 * Runs top-ups, payments and the opening of one account's balance one after the other in this process: at the same time they
 * would abort each other's transactions.
 * @param work gets the time that its caller still waits, in milliseconds
 */
export type InTurn = <T>(userId: string, work: (within?: number) => Promise<T>) => Promise<T>;

export function createInTurn(): InTurn {
  const turns = new AccountTurns(1);
  return (userId, work) => {
    const askedAt = performance.now();
    return turns.run(userId, async () => {
      const remaining = longestDatabaseWait - (performance.now() - askedAt);
      if (remaining < leastLeft) throw new TimeoutError('others wrote the balance for too long');
      return work(remaining);
    });
  };
}

/**
 * Runs a transaction that writes one account's balance. If another process inserts the same document at the same moment, runs it
 * again: now it finds that document.
 */
export type WriteAccount = <T>(userId: string, write: (session: ClientSession | undefined) => Promise<T>) => Promise<T>;

const withoutTurn: InTurn = (_userId, work) => work();

/** @param inTurn @default all transactions run at once */
export function createWriteAccount(transaction: RunInTransaction, inTurn = withoutTurn): WriteAccount {
  return async function writeAccount(userId, write) {
    for (let retriesLeft = maxRetries; ; retriesLeft -= 1) {
      try {
        return await inTurn(userId, (within) => transaction(write, within));
      } catch (error) {
        if (!isDuplicateKey(error) || retriesLeft === 0) throw error;
      }
    }
  };
}
