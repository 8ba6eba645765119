import { AccountTurns } from '../fairness/account-turns.ts';
import { longestWait } from '../mongo/connection/availability.ts';
import { TimeoutError } from '../mongo/with-timeout.ts';

/** With less time left, a transaction would only hinder the caller's next try. Milliseconds. */
const leastLeft = 500;

/**
 * Runs top-ups, payments and the opening of one account's balance one after the other in this process: at the same time they
 * would abort each other's transactions.
 * @param work told how many milliseconds its caller will still wait
 */
export type InTurn = <T>(userId: string, work: (within?: number) => Promise<T>) => Promise<T>;

export function createInTurn(): InTurn {
  const turns = new AccountTurns(1);
  return (userId, work) => {
    const askedAt = performance.now();
    return turns.run(userId, async () => {
      const left = longestWait - (performance.now() - askedAt);
      if (left < leastLeft) throw new TimeoutError('others wrote the balance for too long');
      return work(left);
    });
  };
}
