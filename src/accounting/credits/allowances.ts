import { createPeriodic } from '../../mongo/periodic.ts';
import { isUnavailable } from '../../mongo/unavailable.ts';
import { withTimeout } from '../../mongo/with-timeout.ts';
import type { Logger } from '../../options/options.ts';
import { CreditAllowance } from './credit-allowance.ts';
import type { Ledger } from './ledger.ts';
import type { ReservedCredits } from './reservations.ts';

export interface AllowancesDeps {
  readonly ledger: Pick<Ledger, 'booked'>;
  /** Reserves this many micro-credits of a balance, or as many as there are. */
  readonly reserve: (userId: string, wanted: number) => Promise<ReservedCredits>;
  /** Micro-credits. */
  readonly slice: number;
  /** How often the processes agree on what each may spend. Milliseconds. */
  readonly interval: number;
  /** How long a reservation lasts. Milliseconds. */
  readonly lease: number;
  readonly logger: Logger;
}

/** The allowances of the accounts that make calls in this process. */
export interface Allowances {
  of(userId: string): CreditAllowance;
  /**
   * Resolves when the allowance agrees with the database; `undefined` when it does already and no wait is needed. A call
   * waits when its account is new here, when its reservation has lapsed, and once per interval while it has nothing left.
   * Rejects when the database is unavailable and this process knows of nothing that the account has left.
   */
  agreed(userId: string): Promise<void> | undefined;
  /** Whether the database is late in reserving more. */
  isOverdue(userId: string): boolean;
  /** Starts an agreement soon; no call waits for it. */
  touch(userId: string): void;
  /**
   * Releases what is reserved for these ended calls: either this process has charged for them, so every balance read from
   * now on includes them, or nobody will charge for them.
   */
  booked(calls: readonly { readonly _id: string; readonly userId: string }[]): void;
  /** Starts an agreement now, if this process has the allowance. */
  refresh(userId: string): Promise<void>;
  close(): Promise<void>;
}

interface Entry {
  readonly allowance: CreditAllowance;
  /** Ended calls that are charged, and are still part of what is reserved. */
  readonly booked: Set<string>;
  /** Whether the last agreement reserved less than was wanted. */
  isScarce: boolean;
  touchedAt: number;
  /** When the last agreement was begun. */
  startedAt: number;
  /** When the last agreement that succeeded was begun. */
  agreedAt: number;
  /** Until when the reservation may be spent. */
  expiresAt: number;
  agreeing: Promise<void> | undefined;
  /** Whether the database did not answer the last agreement. */
  hasFailed: boolean;
  /** Waits for the time of the next agreement. */
  waiting: NodeJS.Timeout | undefined;
}

/**
 * The least time between two agreements on one account. Each writes its balance, and transactions that charge it succeed only
 * between two such writes. Milliseconds.
 */
const shortestGap = 50;
/** How soon after its end the process that made a call charges for it at the latest. Milliseconds. */
const lateAfter = 2_000;
/** How long an unused allowance is kept. Milliseconds. */
const idleTime = 600_000;
/** The longest that a call waits for an agreement. Milliseconds. */
const longestWait = 2_000;
/** The longest that each step of an agreement waits for the database. Milliseconds. */
const longestStep = 2_000;
/** An agreement that takes longer means that the database is in trouble. Milliseconds. */
const overdueAfter = 1_000;

const inTime = <T>(answer: Promise<T>) => withTimeout(answer, longestStep);

function newEntry(): Entry {
  return {
    allowance: new CreditAllowance(),
    booked: new Set(),
    isScarce: false,
    touchedAt: performance.now(),
    startedAt: Number.NEGATIVE_INFINITY,
    agreedAt: Number.NEGATIVE_INFINITY,
    expiresAt: Number.NEGATIVE_INFINITY,
    agreeing: undefined,
    hasFailed: false,
    waiting: undefined,
  };
}

export function createAllowances({ ledger, reserve, slice, interval, lease, logger }: AllowancesDeps): Allowances {
  const entries = new Map<string, Entry>();
  const gap = Math.min(shortestGap, interval);
  let closed = false;
  let isFailing = false;

  async function agree(userId: string, entry: Entry): Promise<void> {
    const { allowance, isScarce, startedAt } = entry;
    const known = new Set(entry.booked);
    // most calls are charged soon, by the process that made them; the ledger is read only for late ones, or when credits are scarce
    const ended = isScarce ? allowance.unbooked : allowance.unbookedBefore(performance.now() - lateAfter);
    const asked = ended.filter((id) => !known.has(id));
    // read the booked calls before the balance: so no call is missing from both
    const booked = [...known, ...(asked.length > 0 ? await inTime(ledger.booked(asked)) : [])];
    const reserved = allowance.reserved - allowance.costOf(booked);
    const wanted = reserved + Math.max(slice, reserved);
    allowance.lower(wanted, booked);
    const reservation = await inTime(reserve(userId, wanted));
    // when credits are scarce, do not count a charge both in the balance and as unbooked
    const later = reservation.amount < wanted ? await inTime(ledger.booked(allowance.unbooked)) : [];
    allowance.allow(reservation, booked, later);
    for (const id of known) entry.booked.delete(id);
    entry.isScarce = reservation.amount < wanted;
    entry.agreedAt = startedAt;
    entry.expiresAt = startedAt + lease;
  }

  /** @returns the agreement under way, which rejects when the database is unavailable */
  function start(userId: string, entry: Entry): Promise<void> {
    clearTimeout(entry.waiting);
    entry.waiting = undefined;
    if (entry.agreeing) return entry.agreeing;
    entry.startedAt = performance.now();
    entry.agreeing = agree(userId, entry).finally(() => {
      entry.agreeing = undefined;
    });
    entry.agreeing.then(
      () => {
        isFailing = false;
        entry.hasFailed = false;
      },
      (error) => {
        entry.hasFailed = isUnavailable(error);
        if (!isFailing) logger.warn('what accounts may spend could not be agreed on', { reason: String(error) });
        isFailing = true;
      },
    );
    return entry.agreeing;
  }

  /** The same, and never rejects: `start` has logged the failure. */
  async function tryStart(userId: string, entry: Entry): Promise<void> {
    await start(userId, entry).catch(() => {});
  }

  function startLate(userId: string, entry: Entry): void {
    if (!closed) void tryStart(userId, entry);
  }

  async function waitFor(userId: string, entry: Entry): Promise<void> {
    try {
      await withTimeout(start(userId, entry), longestWait);
    } catch (error) {
      // while the database is away, this process keeps what is left of its reservation
      if (entry.allowance.isEmpty) throw error;
      entry.expiresAt = performance.now() + lease;
    }
  }

  /** Releases what this process will not spend, so that the other processes can have it at once. */
  async function giveBack(userId: string, { allowance, agreeing, waiting }: Entry): Promise<void> {
    clearTimeout(waiting);
    await agreeing?.catch(() => {});
    await inTime(reserve(userId, allowance.reserved)).catch((error) =>
      logger.warn('what was set aside of an account is kept until its lease ends', { reason: String(error) }),
    );
  }

  function tick(): void {
    const now = performance.now();
    for (const [userId, entry] of entries) {
      const idle = now - Math.max(entry.touchedAt, entry.startedAt);
      if (entry.allowance.reserved > 0 || now - entry.touchedAt < 2 * interval) void tryStart(userId, entry);
      else if (idle > idleTime) entries.delete(userId);
    }
  }

  const ticks = createPeriodic({
    name: 'agreeing on what accounts may spend',
    task: tick,
    interval,
    initialDelay: interval,
    logger,
  });

  function entryOf(userId: string): Entry {
    const present = entries.get(userId);
    if (present) return present;
    const entry = newEntry();
    entries.set(userId, entry);
    if (!closed) ticks.start();
    return entry;
  }

  return {
    of: (userId) => entryOf(userId).allowance,
    agreed(userId) {
      const entry = entryOf(userId);
      const now = performance.now();
      const isCurrent = now < entry.expiresAt && !(entry.allowance.isEmpty && now - entry.agreedAt >= interval);
      return isCurrent || closed ? undefined : waitFor(userId, entry);
    },
    isOverdue(userId) {
      const entry = entries.get(userId);
      if (!entry) return false;
      const { agreeing, startedAt, hasFailed } = entry;
      return hasFailed || (agreeing !== undefined && performance.now() - startedAt > overdueAfter);
    },
    touch(userId) {
      const entry = entryOf(userId);
      entry.touchedAt = performance.now();
      if (closed) return;
      const wait = entry.startedAt + gap - entry.touchedAt;
      if (wait <= 0) void tryStart(userId, entry);
      else entry.waiting ??= setTimeout(startLate, wait, userId, entry).unref();
    },
    booked(calls) {
      for (const { _id, userId } of calls) {
        const entry = entries.get(userId);
        if (entry?.allowance.owes(_id)) entry.booked.add(_id);
      }
    },
    async refresh(userId) {
      const entry = entries.get(userId);
      if (!entry) return;
      await entry.agreeing?.catch(() => {});
      await tryStart(userId, entry);
    },
    async close() {
      closed = true;
      await ticks.stop();
      await Promise.all([...entries].map(([userId, entry]) => giveBack(userId, entry)));
    },
  };
}
