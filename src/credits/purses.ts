import { answered } from '../answered.ts';
import type { Logger } from '../options.ts';
import type { Ledger } from './ledger.ts';
import { Purse } from './purse.ts';
import type { SetAsideOf } from './slices.ts';

export interface PursesDeps {
  readonly ledger: Pick<Ledger, 'booked'>;
  /** Sets aside so many micro-credits of a balance, or what there is of them. */
  readonly setAside: (userId: string, wanted: number) => Promise<SetAsideOf>;
  /** Micro-credits. */
  readonly slice: number;
  /** How often it is agreed with the other processes what each may spend. Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** The purses of the accounts that this process has to do with. */
export interface Purses {
  of(userId: string): Purse;
  /** Agrees on it soon, and does not make anybody wait. */
  touch(userId: string): void;
  /** These ended calls were charged in this process, which shows in every balance that is read from now on. */
  booked(calls: readonly { readonly _id: string; readonly userId: string }[]): void;
  /** Agrees on it now, if it is there. */
  refresh(userId: string): Promise<void>;
  close(): Promise<void>;
}

interface Kept {
  readonly purse: Purse;
  /** Ended calls that are known to be booked, and not yet left out of what is spoken for. */
  booked: string[];
  /** Whether less could be set aside than was wanted when it was last agreed on. */
  isScarce: boolean;
  touchedAt: number;
  /** When it was last begun to agree on it. */
  agreedAt: number;
  agreeing: Promise<void> | undefined;
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
/** How long a purse that nobody touches is kept. Milliseconds. */
const idleTime = 600_000;

export function createPurses({ ledger, setAside, slice, interval, logger }: PursesDeps): Purses {
  const kept = new Map<string, Kept>();
  const gap = Math.min(shortestGap, interval);
  let closed = false;
  let timer: NodeJS.Timeout | undefined;

  async function agree(userId: string, one: Kept): Promise<void> {
    const { purse, isScarce } = one;
    const known = new Set(one.booked);
    one.booked = [];
    // most calls are charged where they were made, and soon; of others it is asked when they are late, or every credit counts
    const ended = isScarce ? purse.unbooked : purse.unbookedBefore(performance.now() - lateAfter);
    const asked = ended.filter((id) => !known.has(id));
    // first what shows in the balance, then the balance: nothing is counted twice to the account's favour
    const booked = [...known, ...(asked.length > 0 ? await ledger.booked(asked) : [])];
    const spokenFor = purse.spokenFor - purse.costOf(booked);
    const wanted = spokenFor + Math.max(slice, spokenFor);
    const own = await setAside(userId, wanted);
    // where it is about to be used up, nobody may be told so because a charge was seen on both sides
    const later = own.amount < wanted ? await ledger.booked(purse.unbooked) : [];
    purse.allow(own, booked, later);
    one.isScarce = own.amount < wanted;
  }

  function start(userId: string, one: Kept): Promise<void> {
    clearTimeout(one.waiting);
    one.waiting = undefined;
    if (!one.agreeing) one.agreedAt = performance.now();
    one.agreeing ??= answered(agree(userId, one))
      .catch((error) => logger.warn('what an account may spend could not be agreed on', { reason: String(error) }))
      .finally(() => {
        one.agreeing = undefined;
      });
    return one.agreeing;
  }

  function startLate(userId: string, one: Kept): void {
    if (!closed) void start(userId, one);
  }

  /** What nobody here will spend is the other processes' at once. */
  async function giveBack(userId: string, { purse, agreeing, waiting }: Kept): Promise<void> {
    clearTimeout(waiting);
    await agreeing;
    await setAside(userId, purse.spokenFor).catch((error) =>
      logger.warn('what was set aside of an account is kept until its lease ends', { reason: String(error) }),
    );
  }

  function tick(): void {
    const now = performance.now();
    for (const [userId, one] of kept) {
      const idle = now - one.touchedAt;
      if (one.purse.spokenFor > 0 || idle < 2 * interval) void start(userId, one);
      else if (idle > idleTime) kept.delete(userId);
    }
  }

  function keep(userId: string): Kept {
    const present = kept.get(userId);
    if (present) return present;
    const one: Kept = {
      purse: new Purse(slice),
      booked: [],
      isScarce: false,
      touchedAt: performance.now(),
      agreedAt: Number.NEGATIVE_INFINITY,
      agreeing: undefined,
      waiting: undefined,
    };
    kept.set(userId, one);
    timer ??= setInterval(tick, interval).unref();
    return one;
  }

  return {
    of: (userId) => keep(userId).purse,
    touch(userId) {
      const one = keep(userId);
      one.touchedAt = performance.now();
      if (closed) return;
      const wait = one.agreedAt + gap - one.touchedAt;
      if (wait <= 0) void start(userId, one);
      else one.waiting ??= setTimeout(startLate, wait, userId, one).unref();
    },
    booked(calls) {
      for (const { _id, userId } of calls) {
        const one = kept.get(userId);
        if (one?.purse.owes(_id)) one.booked.push(_id);
      }
    },
    async refresh(userId) {
      const one = kept.get(userId);
      if (!one) return;
      await one.agreeing;
      await start(userId, one);
    },
    async close() {
      closed = true;
      clearInterval(timer);
      await Promise.all([...kept].map(([userId, one]) => giveBack(userId, one)));
    },
  };
}
