import type { Connection } from 'mongoose';
import { createCommandTimeout, databaseOf, inOneBatch } from './collection.ts';
import { isUnavailable } from './unavailable.ts';

/** A read of one collection: the argument of `$unionWith`. */
export interface PartOfQuery {
  readonly coll: string;
  readonly pipeline: readonly object[];
}

/** Finds the id of one document that matches: of the first in an order, where one is given. */
export function firstMatch(coll: string, filter: object, sort?: object): PartOfQuery {
  return {
    coll,
    pipeline: [{ $match: filter }, ...(sort ? [{ $sort: sort }] : []), { $limit: 1 }, { $project: { _id: 1 } }],
  };
}

/** How long a read waits at most: longer than from one sweep to the next, by the default of `sweepInterval`. Milliseconds. */
export const longestJoin = 500;

interface Row {
  /** Which part has found it. */
  readonly part: number;
  readonly document: object;
}

interface WaitingRead {
  readonly part: PartOfQuery;
  readonly resolve: (documents: readonly object[]) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Reads of several collections in one round trip. What a process looks for again and again, and is in no hurry to find, goes with the next
 * sweep: a command costs an idle process and its database more than what is in it. Each part must be a short range of an index.
 */
export class SharedReads {
  readonly #connection: Connection;
  readonly #timeout = createCommandTimeout();
  #longestWait: number;
  #waiting: WaitingRead[] = [];
  #timer: NodeJS.Timeout | undefined;

  /** @param longestWait how long a read waits for one to go with; 0 for those that go alone. Milliseconds. */
  constructor(connection: Connection, longestWait = longestJoin) {
    this.#connection = connection;
    this.#longestWait = longestWait;
  }

  /** Reads now, and takes along what waits. Resolves with what each part has found. */
  async read(parts: readonly PartOfQuery[]): Promise<readonly (readonly object[])[]> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const joined = this.#waiting;
    this.#waiting = [];
    try {
      const found = await this.#query([...parts, ...joined.map(({ part }) => part)]);
      for (const [i, { resolve }] of joined.entries()) resolve(found[parts.length + i] ?? []);
      return found.slice(0, parts.length);
    } catch (error) {
      if (joined.length === 0) throw error;
      if (isUnavailable(error)) {
        for (const { reject } of joined) reject(error);
        throw error;
      }
      // one that cannot be read holds up no other
      for (const { part, resolve, reject } of joined) {
        this.#query([part]).then(([documents = []]) => resolve(documents), reject);
      }
      return this.#query(parts);
    }
  }

  /** Reads with the next that reads, or with others that wait, or alone. */
  join(part: PartOfQuery): Promise<readonly object[]> {
    const found = new Promise<readonly object[]>((resolve, reject) => this.#waiting.push({ part, resolve, reject }));
    this.#timer ??= setTimeout(() => this.#readWaiting(), this.#longestWait).unref();
    return found;
  }

  /** From now on no read waits, so that nothing that closes waits for one. */
  close(): void {
    this.#longestWait = 0;
    if (this.#waiting.length > 0) this.#readWaiting();
  }

  /** Whoever waits is told of a failure. */
  #readWaiting(): void {
    this.read([]).catch(() => {});
  }

  async #query(parts: readonly PartOfQuery[]): Promise<readonly (readonly object[])[]> {
    const [first, ...others] = parts.map(({ coll, pipeline }, part) => ({
      coll,
      pipeline: [...pipeline, { $replaceWith: { part: { $literal: part }, document: '$$ROOT' } }],
    }));
    if (!first) return [];
    const collection = databaseOf(this.#connection).collection(first.coll);
    const unions = others.map((other) => ({ $unionWith: other }));
    const options = { ...inOneBatch, signal: this.#timeout() };
    const rows = await collection.aggregate<Row>([...first.pipeline, ...unions], options).toArray();
    const found = parts.map((): object[] => []);
    for (const { part, document } of rows) found[part]?.push(document);
    return found;
  }
}
