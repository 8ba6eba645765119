import type { Logger } from '../options.ts';
import type { Ledger } from './ledger.ts';
import { Purse } from './purse.ts';
import type { SetAside } from './slices.ts';

export interface PursesDeps {
  readonly ledger: Pick<Ledger, 'booked'>;
  readonly setAside: SetAside;
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
  /** Agrees on it now, if it is there. */
  refresh(userId: string): Promise<void>;
  close(): Promise<void>;
}

interface Kept {
  readonly purse: Purse;
  touchedAt: number;
  agreeing: Promise<void> | undefined;
}

/** How long a purse that nobody touches is kept. Milliseconds. */
const idleTime = 600_000;

export function createPurses({ ledger, setAside, slice, interval, logger }: PursesDeps): Purses {
  const kept = new Map<string, Kept>();
  let closed = false;
  let timer: NodeJS.Timeout | undefined;

  async function agree(userId: string, { purse }: Kept): Promise<void> {
    const ids = purse.unbooked;
    // first what shows in the balance, then the balance: nothing is counted twice to the account's favour
    const booked = ids.length > 0 ? await ledger.booked(ids) : [];
    const spokenFor = purse.spokenFor;
    purse.allow(await setAside(userId, spokenFor + Math.max(slice, spokenFor)));
    purse.settle(booked);
  }

  function start(userId: string, one: Kept): Promise<void> {
    one.agreeing ??= agree(userId, one)
      .catch((error) => logger.warn('what an account may spend could not be agreed on', { reason: String(error) }))
      .finally(() => {
        one.agreeing = undefined;
      });
    return one.agreeing;
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
    const one: Kept = { purse: new Purse(slice), touchedAt: performance.now(), agreeing: undefined };
    kept.set(userId, one);
    timer ??= setInterval(tick, interval).unref();
    return one;
  }

  return {
    of: (userId) => keep(userId).purse,
    touch(userId) {
      const one = keep(userId);
      one.touchedAt = performance.now();
      if (!closed) void start(userId, one);
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
      await Promise.all([...kept.values()].map(({ agreeing }) => agreeing));
    },
  };
}
