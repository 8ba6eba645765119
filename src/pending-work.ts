import { setTimeout as sleep } from 'node:timers/promises';

/**
 * What is under way: items that come and go by the thousand while few are there at once. It keeps no order, and holds an item once.
 *
 * A `Set` or `Map` of them fills the memory. V8 gives it a new table whenever removed entries have used up the present one, and the old table keeps what it
 * held and a pointer to the new one. Once a table is an old object, all later ones, and what they held, become old objects: 220 MB in place of 56 in
 * 30,000 deliveries, and with a `Set` 0.89 times as many relayed calls (0.86 to 0.90 in three rounds).
 */
export class InFlight<Item extends object> {
  readonly #items: Item[] = [];
  /** The index of each item. It keeps no item in memory. */
  readonly #places = new WeakMap<Item, number>();

  get size(): number {
    return this.#items.length;
  }

  add(item: Item): void {
    if (this.#places.has(item)) return;
    this.#places.set(item, this.#items.length);
    this.#items.push(item);
  }

  /** @returns whether it was there */
  delete(item: Item): boolean {
    const place = this.#places.get(item);
    if (place === undefined) return false;
    this.#places.delete(item);
    const last = this.#items.pop() as Item;
    if (last === item) return true;
    this.#items[place] = last;
    this.#places.set(last, place);
    return true;
  }

  /** The items that are there now; those that are removed meanwhile still come. */
  [Symbol.iterator](): Iterator<Item> {
    return [...this.#items].values();
  }
}

/** Remembers work that was started and not awaited, so that closing can wait for it. */
export class PendingWork {
  readonly #works = new InFlight<Promise<unknown>>();

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
