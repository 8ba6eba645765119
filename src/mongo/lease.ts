import type { mongo } from 'mongoose';
import type { Logger } from '../options/options.ts';
import { InFlight } from '../pending-work.ts';
import { fromNow } from './clock.ts';
import { inOneBatch } from './collection.ts';
import { confirmAbsent } from './confirmed-reads.ts';
import { createPeriodic } from './periodic.ts';

/**
 * The fields that keep a lease in a document. Only the database's clock says when a lease ends, so no process's clock matters.
 * A holder that stands still for too long loses its lease without noticing; the fence then keeps it from changing anything.
 */
export interface LeaseFields {
  /** The path of the value that is new with every lease: a random token, or a count of the leases. */
  readonly fence: string;
  /** The path of the time at which the lease ends. In the past, any process may take it. */
  readonly until: string;
  /** How long a lease lasts unless it is renewed. Milliseconds. */
  readonly duration: number;
}

export interface Renewal {
  /** Further fields that a renewal sets. @default none */
  readonly set?: object;
  /** What else must be true of the documents. @default nothing */
  readonly where?: object;
  /** @default those of the collection */
  readonly options?: Pick<mongo.UpdateOptions, 'hint' | 'writeConcern'>;
}

/** A lease that this process has taken. Leases that were taken in one write can share a fence; with the `_id` it is unique. */
export interface Held {
  readonly _id: string;
  readonly fence: string | number;
}

type Leased = { _id: string };

/** The leases in one collection: take, renew, write under the fence, release. */
export class Leases<T extends Leased> {
  /** Matches, in an `$expr`, a document on which nobody has a lease, also one whose lease fields are missing. */
  readonly isFree: object;
  readonly #collection: mongo.Collection<T>;
  readonly #fields: LeaseFields;

  constructor(collection: mongo.Collection<T>, fields: LeaseFields) {
    this.#collection = collection;
    this.#fields = fields;
    this.isFree = { $lte: [{ $ifNull: [`$${fields.until}`, new Date(0)] }, '$$NOW'] };
  }

  /** The end of a lease that begins or is renewed now, as an update sets it. */
  get extended(): Readonly<Record<string, object>> {
    return { [this.#fields.until]: fromNow(this.#fields.duration) };
  }

  /** Matches the document while this lease is held. */
  held({ _id, fence }: Held): mongo.Filter<T> {
    return { _id, [this.#fields.fence]: fence } as unknown as mongo.Filter<T>;
  }

  /**
   * Takes the lease of one document that `filter` matches; the filter says whether it must be free.
   * @param set the fields to set, the fence among them; `until` is set here
   * @returns the document, and until when its lease surely lasts by `performance.now()`; `null` if none matched
   */
  async take(
    filter: object,
    set: object,
    options: Pick<mongo.FindOneAndUpdateOptions, 'sort' | 'projection'> = {},
  ): Promise<{ readonly document: mongo.WithId<T>; readonly heldUntil: number } | null> {
    // the lease starts later than this, by the database's clock
    const askedAt = performance.now();
    const update = [{ $set: { ...set, ...this.extended } }];
    const document = await this.#collection.findOneAndUpdate(filter as mongo.Filter<T>, update, {
      ...options,
      returnDocument: 'after',
    });
    return document && { document, heldUntil: askedAt + this.#fields.duration };
  }

  /**
   * Renews those of these leases that no other process has taken, and returns them. Fences that are counts tell leases apart only where
   * all are the same: call it once for each. What `set` changes must not be part of `where`.
   */
  async renew<H extends Held>(leases: readonly H[], renewal: Renewal = {}): Promise<readonly H[]> {
    if ((await this.extend(leases, renewal)) === leases.length) return leases;
    const { fence } = this.#fields;
    const held = this.#heldOf(leases, renewal);
    const fenced = await this.#collection
      .aggregate<Held>([{ $match: held }, { $project: { fence: `$${fence}` } }], inOneBatch)
      .toArray();
    const fences = new Map(fenced.map((document) => [document._id, document.fence]));
    return leases.filter((lease) => fences.get(lease._id) === lease.fence);
  }

  /** The same, without asking which are still held. Resolves to their number. */
  async extend(leases: readonly Held[], renewal: Renewal = {}): Promise<number> {
    const update = [{ $set: { ...this.extended, ...renewal.set } }];
    const { matchedCount } = await this.#collection.updateMany(this.#heldOf(leases, renewal), update, renewal.options);
    return matchedCount;
  }

  #heldOf(leases: readonly Held[], { where }: Renewal): mongo.Filter<T> {
    return {
      ...where,
      _id: { $in: leases.map(({ _id }) => _id) },
      [this.#fields.fence]: { $in: [...new Set(leases.map(({ fence }) => fence))] },
    } as unknown as mongo.Filter<T>;
  }

  /**
   * Writes under the fence. Releasing a lease is such a write, which ends it.
   * @returns `false` if another process has taken the lease
   * @throws TimeoutError if the lease is still held and the write was not made: a replaced primary did not find it
   */
  async write(lease: Held, set: object): Promise<boolean> {
    const { matchedCount } = await this.#collection.updateOne(this.held(lease), [{ $set: set }]);
    if (matchedCount === 0) await confirmAbsent(this.#collection, this.held(lease));
    return matchedCount === 1;
  }
}

/** Durations are milliseconds. */
export interface LeaseKeeperOptions<Lease extends object> {
  /** For the log: `renewing leases`. */
  readonly name: string;
  /** Renews leases, and returns those that are still held. */
  readonly renew: (leases: readonly Lease[]) => Promise<readonly Lease[]>;
  /** How long a lease lasts after a renewal. */
  readonly duration: number;
  /** How often leases are looked at. */
  readonly interval: number;
  /** A lease is renewed once less than this is left of it. @default at every look */
  readonly renewBelow?: number;
  /** Called when a renewal has found that another process has a lease. @default nobody is */
  readonly onLost?: (lease: Lease) => void;
  /** A renewal without an answer is repeated after this time. @default `interval` */
  readonly longestRenewal?: number;
  readonly logger: Logger;
}

/** Keeps the leases alive that this process uses, all in one write, and knows until when each is surely held. */
export class LeaseKeeper<Lease extends object> {
  /** When each lease ends at the earliest, by `performance.now()`. */
  readonly #ends = new WeakMap<Lease, number>();
  readonly #renewed = new InFlight<Lease>();
  readonly #options: LeaseKeeperOptions<Lease>;
  readonly #renewal: ReturnType<typeof createPeriodic>;

  constructor(options: LeaseKeeperOptions<Lease>) {
    const { name, interval, longestRenewal = interval, logger } = options;
    this.#options = options;
    this.#renewal = createPeriodic({
      name,
      task: () => this.#renew(),
      interval,
      initialDelay: interval,
      // a renewal without an answer must not delay the next one
      longestRun: longestRenewal,
      logger,
    });
  }

  /** Renews the lease from now on. @param until when it ends otherwise, by `performance.now()` */
  hold(lease: Lease, until: number): void {
    this.#ends.set(lease, until);
    this.#renewed.add(lease);
    this.#renewal.start();
  }

  /** Knows when the lease ends, but does not renew it. */
  track(lease: Lease, until: number): void {
    this.#ends.set(lease, until);
  }

  /** Whether this process surely holds the lease for so many milliseconds more; judged by the monotonic clock. */
  lasts(lease: Lease, margin: number): boolean {
    return performance.now() < (this.#ends.get(lease) ?? 0) - margin;
  }

  /** Resolves when no renewal of it is under way any more, if it was the last. */
  async drop(lease: Lease): Promise<void> {
    this.#ends.delete(lease);
    this.#renewed.delete(lease);
    if (this.#renewed.size === 0) await this.#renewal.stop();
  }

  async #renew(): Promise<void> {
    const { renew, duration, renewBelow = Number.POSITIVE_INFINITY, onLost } = this.#options;
    // the new lease starts later than this, by the database's clock
    const askedAt = performance.now();
    const due = [...this.#renewed].filter((lease) => (this.#ends.get(lease) ?? 0) < askedAt + renewBelow);
    if (due.length === 0) return;
    const held = new Set(await renew(due));
    for (const lease of due) {
      const until = this.#ends.get(lease);
      if (until === undefined) continue;
      if (held.has(lease)) this.#ends.set(lease, Math.max(until, askedAt + duration));
      else onLost?.(lease);
    }
  }
}
