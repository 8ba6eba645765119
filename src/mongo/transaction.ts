import type { ClientSession } from 'mongoose';
import { longestDatabaseWait } from './connection/availability.ts';

/**
 * Runs writes as one transaction; without a session if the database has no transactions. Rolls back if it takes longer than
 * `within` ms.
 */
export type RunInTransaction = <T>(
  fn: (session: ClientSession | undefined) => Promise<T>,
  within?: number,
) => Promise<T>;

/**
 * For transactions that a caller waits for: they end when the caller gets the error, so that they do not hinder its next
 * try.
 */
export function whileAwaited(transaction: RunInTransaction): RunInTransaction {
  return (fn, within = longestDatabaseWait) => transaction(fn, within);
}
