import { setTimeout as sleep } from 'node:timers/promises';

/** Remembers work that was started and not awaited, so that closing can wait for it. */
export class PendingWork {
  readonly #works = new Set<Promise<unknown>>();

  /** It may reject: that is for whoever started it to tell. */
  add(work: Promise<unknown>): void {
    const ended = () => void this.#works.delete(work);
    this.#works.add(work);
    work.then(ended, ended);
  }

  /** Resolves when all of it has ended, what is added meanwhile too, or after so many milliseconds. @default however long it takes */
  async done(maxWait?: number): Promise<void> {
    const all = async (): Promise<void> => {
      while (this.#works.size > 0) await Promise.allSettled(this.#works);
    };
    await (maxWait === undefined ? all() : Promise.race([all(), sleep(maxWait, undefined, { ref: false })]));
  }
}
