import { AccountTurns } from '../account-turns.ts';
import { UnansweredError } from '../answered.ts';

/** Who has waited longer for its turn has been answered meanwhile. Milliseconds. */
const longestTurn = 4_000;

/** Has those who write an account's balance in this process do so one after the other: at once they undo each other's transactions. */
export type InTurn = <T>(userId: string, work: () => Promise<T>) => Promise<T>;

export function createInTurn(): InTurn {
  const turns = new AccountTurns(1);
  return (userId, work) => {
    const askedAt = performance.now();
    return turns.run(userId, async () => {
      if (performance.now() - askedAt > longestTurn) throw new UnansweredError('others wrote the balance for too long');
      return work();
    });
  };
}
