import { createPeriodic } from '../../mongo/periodic.ts';
import { isUnavailable } from '../../mongo/unavailable.ts';
import { withTimeout } from '../../mongo/with-timeout.ts';
import type { Logger } from '../../options/options.ts';
import { CreditAllowance } from './credit-allowance.ts';
import type { Ledger } from './ledger.ts';
import type { ReservedCredits } from './reservations.ts';

export interface AllowancesDeps {
  readonly ledger: Pick<Ledger, 'booked'>;
  /** Sets aside so many micro-credits of a balance, or what there is of them. */
  readonly reserve: (userId: string, wanted: number) => Promise<ReservedCredits>;
  /** Micro-credits. */
  readonly slice: number;
  /** How often it is agreed with the other processes what each may spend. Milliseconds. */
  readonly interval: number;
  /** How long what was set aside is this process' own. Milliseconds. */
  readonly lease: number;
  readonly logger: Logger;
}

/** The allowances of the accounts that this process has to do with. */
export interface Allowances {
  of(userId: string): CreditAllowance;
  /**
   * Resolves when the allowance is what the database says; `undefined` where it is so already, and nobody need wait. An
   * account is waited for when it is new here, when what was set aside for it has lapsed, and once per interval while it has
   * nothing left. Rejects when the database cannot be asked and the account is not known to have anything left.
   */
  agreed(userId: string): Promise<void> | undefined;
  /** Whether the database is late in setting more aside. */
  isOverdue(userId: string): boolean;
  /** Agrees on it soon, and does not make anybody wait. */
  touch(userId: string): void;
  /**
   * These ended calls are not reserved for any more: they were charged in this process, which shows in every balance that
   * is read from now on, or nobody will charge for them.
   */
  booked(calls: readonly { readonly _id: string; readonly userId: string }[]): void;
  /** Agrees on it now, if it is there. */
  refresh(userId: string): Promise<void>;
  close(): Promise<void>;
}

interface Entry {
  readonly allowance: CreditAllowance;
  /** Ended calls that need not be reserved for any more, and are not yet left out of what is reserved. */
  readonly booked: Set<string>;
  /** Whether less could be set aside than was wanted when it was last agreed on. */
  isScarce: boolean;
  touchedAt: number;
  /** When it was last begun to agree on it. */
  startedAt: number;
  /** When the last agreement that was reached had begun. */
  agreedAt: number;
  /** Until when what was set aside may be spent. */
  expiresAt: number;
  agreeing: Promise<void> | undefined;
  /** Whether the database did not answer when it was last begun to agree on it. */
  hasFailed: boolean;
  /** Until it may be agreed on again. */
  waiting: NodeJS.Timeout | undefined;
}

/**
 * How long one account is left alone after it was agreed on, whatever is asked for. Each time writes its balance, and those
 * who charge it get through between two such writes only. Milliseconds.
 */
const shortestGap = 50;
/** How long after its end a call is charged for at the latest where it was made, if that counts at all. Milliseconds. */
const lateAfter = 2_000;
/** How long an allowance that nobody touches is kept. Milliseconds. */
const idleTime = 600_000;
/** The longest that a call waits for an agreement. Milliseconds. */
const longestWait = 2_000;
/** The longest that each step of an agreement waits for the database: nothing more can be spent here until the next one. Milliseconds. */
const longestStep = 2_000;
/** How long an agreement takes at most while the database is well. Milliseconds. */
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
    // most calls are charged where they were made, and soon; of others it is asked when they are late, or every credit counts
    const ended = isScarce ? allowance.unbooked : allowance.unbookedBefore(performance.now() - lateAfter);
    const asked = ended.filter((id) => !known.has(id));
    // first what shows in the balance, then the balance: nothing is counted twice to the account's favour
    const booked = [...known, ...(asked.length > 0 ? await inTime(ledger.booked(asked)) : [])];
    const reserved = allowance.reserved - allowance.costOf(booked);
    const wanted = reserved + Math.max(slice, reserved);
    allowance.lower(wanted, booked);
    const reservation = await inTime(reserve(userId, wanted));
    // where it is about to be used up, nobody may be told so because a charge was seen on both sides
    const later = reservation.amount < wanted ? await inTime(ledger.booked(allowance.unbooked)) : [];
    allowance.allow(reservation, booked, later);
    for (const id of known) entry.booked.delete(id);
    entry.isScarce = reservation.amount < wanted;
    entry.agreedAt = startedAt;
    entry.expiresAt = startedAt + lease;
  }

  /** @returns the agreement under way, which rejects when the database cannot be asked */
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

  /** The same for those who go on whatever comes of it; its failure has been logged. */
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
      // what was not spent of what this process had stays its own while the database is away
      if (entry.allowance.isEmpty) throw error;
      entry.expiresAt = performance.now() + lease;
    }
  }

  /** What nobody here will spend is the other processes' at once. */
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
