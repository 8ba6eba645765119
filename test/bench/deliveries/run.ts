import { createNotes, type Notes } from './notes.ts';
import type { Process, Setup, Target } from './setup.ts';

/** What every group of rows works with. */
export interface Run {
  readonly setup: Setup;
  readonly notes: Notes;
  /** One short round of each row. */
  readonly quick: boolean;
  /** So many, or fewer where it is to be quick. */
  some(count: number): number;
  /** An account of its own for each measurement. */
  newUser(): string;
  /** Where and how to publish at this sender. */
  opened(sender: Process): Promise<Target>;
}

/** Groups of rows by their names; each can be run again and again, alone or after any other. Rounds count from 0. */
export type Groups = Readonly<Record<string, (round: number) => Promise<void>>>;

export const thousands = (count: number): string => count.toLocaleString('en');

export function createRun(setup: Setup, quick: boolean): Run {
  let user = 0;
  return {
    setup,
    notes: createNotes(),
    quick,
    some: (count) => Math.round(count * (quick ? 0.2 : 1)),
    newUser() {
      user += 1;
      return `usr_${user}`;
    },
    async opened(sender) {
      await setup.load.call('retarget');
      return sender.call<Target>('open');
    },
  };
}
