import { dynamicThreshold } from '../../fairness/dynamic-threshold.ts';
import { createPrefetchWindow, type PrefetchWindow } from './prefetch-window.ts';

/** The part of all places that no account gets, however quickly its receivers answer, so that a new account can start. */
const reserve = 0.1;
/** The expected response time of an account without responses so far: a burst for many webhooks can be held at once. Milliseconds. */
const expected = 75;
/** A request that takes longer counts as slow. Milliseconds. */
const slow = 2_000;

export interface AccountShareOptions {
  /** Requests under way at once, of all accounts together. */
  readonly concurrency: number;
  /** Of those, requests of one account until its receivers have shown that they answer quickly. */
  readonly perAccount: number;
  /** Attempts held at once, of all accounts together. */
  readonly maxHeld: number;
  /** Milliseconds. @default performance.now */
  readonly now?: () => number;
}

/** One account's share of the places. */
export interface AccountShare {
  readonly window: PrefetchWindow;
  /** Requests that it may have under way at this moment. */
  places(): number;
  /** Whether one more request may be made now. */
  hasPlace(): boolean;
  /** Holds one more attempt. */
  hold(): void;
  /** Holds one attempt less. */
  release(): void;
  begin(): void;
  /** A request has ended. @param duration milliseconds */
  end(duration: number): void;
}

export interface AccountShares {
  /** The account's share; a new one if the account holds nothing. */
  of(userId: string): AccountShare;
  /** Requests under way. */
  readonly sending: number;
  /** Attempts held. */
  readonly held: number;
}

/**
 * Divides places among accounts by a {@link dynamicThreshold}. An account's part is `perAccount` of `concurrency` at first. It
 * grows by one place with each quick response, up to all places except a reserve, so that a single account can use nearly
 * everything within a few responses. It shrinks by the places that slow requests occupy, so an account whose receivers hang
 * keeps `perAccount` places.
 */
export function createAccountShares(options: AccountShareOptions): AccountShares {
  const { concurrency, perAccount, maxHeld, now } = options;
  const first = Math.min(perAccount, concurrency);
  const limit = Math.max(first, concurrency - Math.floor(concurrency * reserve));
  const accounts = new Map<string, AccountShare>();
  const total = { sending: 0, held: 0 };

  function create(userId: string): AccountShare {
    let allowance = first;
    const threshold = (left: number) => dynamicThreshold(left, allowance, concurrency);
    const places = () => threshold(concurrency - total.sending + window.sending);
    const window: PrefetchWindow = createPrefetchWindow({
      places,
      expected,
      maxHeld: () => threshold(maxHeld - total.held + window.held),
      ...(now && { now }),
    });
    const share: AccountShare = {
      window,
      places,
      hasPlace: () => total.sending < concurrency && window.hasPlace(),
      hold() {
        if (window.held === 0) accounts.set(userId, share);
        window.held += 1;
        total.held += 1;
      },
      release() {
        window.held -= 1;
        total.held -= 1;
        if (window.held === 0) accounts.delete(userId);
      },
      begin() {
        window.sending += 1;
        total.sending += 1;
      },
      end(duration) {
        window.sending -= 1;
        total.sending -= 1;
        window.ended(duration);
        allowance = duration < slow ? Math.min(limit, allowance + 1) : Math.max(first, allowance - duration / slow);
      },
    };
    return share;
  }

  return {
    of: (userId) => accounts.get(userId) ?? create(userId),
    get sending() {
      return total.sending;
    },
    get held() {
      return total.held;
    },
  };
}
