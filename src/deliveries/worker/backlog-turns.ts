import type { AttemptRef, WebhookRef } from '../attempt/attempt-ref.ts';
import { unknownAccount, WebhooksByAccount } from './webhooks-by-account.ts';

/** How much more this process wants to claim. */
export interface Demand {
  /** How many more attempts of a webhook. */
  readonly wanted: (webhook: WebhookRef) => number;
  /** How many more attempts of an account. */
  readonly wantedOf: (userId: string) => number;
}

/** Webhooks in one read. */
const webhooksAtOnce = 100;
/** Attempts that are read of a webhook whose account is not known yet: enough to learn the account, and whether there is more. */
const unknownShare = 2;

interface Candidate {
  readonly webhookId: string;
  readonly userId: string;
  /** How many more of the webhook are wanted. */
  readonly free: number;
}

/** The first items; asks the iterator for no more. */
function* take<T>(items: Iterator<T>, limit: number): Generator<T> {
  for (let count = 0; count < limit; count += 1) {
    const { done, value } = items.next();
    if (done) return;
    yield value;
  }
}

/** One item of each line in turn, then a second one of each, and so on. */
function* inTurn<T>(lines: Iterable<Iterator<T>>): Generator<T> {
  let remainingLines = lines;
  for (;;) {
    const rest: Iterator<T>[] = [];
    for (const line of remainingLines) {
      const { done, value } = line.next();
      if (done) continue;
      rest.push(line);
      yield value;
    }
    if (rest.length === 0) return;
    remainingLines = rest;
  }
}

/** How many attempts of each webhook to claim. */
type Shares = Map<string, number>;

/**
 * Divides the limit evenly among the webhooks, and an account's part evenly among its webhooks.
 * @param accountWants how many more attempts of an account are wanted
 */
function divide(webhooks: readonly Candidate[], limit: number, accountWants: (userId: string) => number) {
  const budgets = new Map<string, { left: number; webhooks: number }>();
  for (const { userId } of webhooks) {
    const budget = budgets.get(userId) ?? { left: accountWants(userId), webhooks: 0 };
    budget.webhooks += 1;
    budgets.set(userId, budget);
  }
  const shares: Shares = new Map();
  let remaining = limit;
  webhooks.forEach(({ webhookId, userId, free }, i) => {
    const budget = budgets.get(userId) ?? { left: 0, webhooks: 1 };
    const share = Math.min(
      free,
      Math.ceil(remaining / (webhooks.length - i)),
      Math.ceil(budget.left / budget.webhooks),
    );
    shares.set(webhookId, share);
    remaining -= share;
    budget.left -= share;
    budget.webhooks -= 1;
  });
  return { shares, left: remaining };
}

/** Decides whose turn it is in the backlog: serves accounts in turn, and the webhooks of each account in turn. */
export class BacklogTurns {
  readonly #demand: Demand;
  /** Each with the number of the last `add`. */
  readonly #webhooks = new WebhooksByAccount();
  readonly #behind = new Set<string>();
  #added = 0;

  constructor(demand: Demand) {
    this.#demand = demand;
  }

  add(webhookId: string, userId?: string): void {
    this.#added += 1;
    const currentAccount = this.#webhooks.accountOf(webhookId);
    const account = userId ?? currentAccount ?? unknownAccount;
    if (account !== currentAccount) this.#webhooks.remove(webhookId);
    this.#webhooks.put(webhookId, account, this.#added);
  }

  /** Whether the account has something waiting, or the webhook if its account is not known. */
  has({ userId, webhookId }: WebhookRef): boolean {
    return this.#webhooks.hasAccount(userId) || this.includes(webhookId);
  }

  get size(): number {
    return this.#webhooks.size;
  }

  /** Whether the webhook has something waiting. */
  includes(webhookId: string): boolean {
    return this.#webhooks.accountOf(webhookId) !== undefined;
  }

  /** Whether the last read found as much as it asked for: more may have been due for longer. */
  isBehind(webhookId: string): boolean {
    return this.#behind.has(webhookId);
  }

  /** How many attempts of which webhooks to claim next, at most `limit` in all; and how many of the limit are left over. */
  next(limit: number): { readonly shares: Shares; readonly left: number } {
    const picked = [...take(inTurn(this.#lines()), Math.min(webhooksAtOnce, limit))];
    return divide(picked, limit, (userId) => this.#accountWants(userId));
  }

  /** For each webhook, a number that changes when the webhook is added again. */
  serials(webhookIds: Iterable<string>): Map<string, number | undefined> {
    return new Map([...webhookIds].map((webhookId) => [webhookId, this.#webhooks.get(webhookId)]));
  }

  /** Moves the served webhooks to the end of the line, or out of it if nothing is left. */
  served(
    shares: ReadonlyMap<string, number>,
    before: ReadonlyMap<string, number | undefined>,
    found: readonly AttemptRef[],
  ): void {
    const counts = new Map<string, number>();
    const accounts = new Map<string, string>();
    for (const { webhookId, userId } of found) {
      counts.set(webhookId, (counts.get(webhookId) ?? 0) + 1);
      accounts.set(webhookId, userId);
    }
    const served = new Set<string>();
    for (const [webhookId, share] of shares) {
      const hasMore = (counts.get(webhookId) ?? 0) >= share;
      if (hasMore) this.#behind.add(webhookId);
      else this.#behind.delete(webhookId);
      const serial = this.#webhooks.get(webhookId);
      const userId = accounts.get(webhookId) ?? this.#webhooks.accountOf(webhookId);
      if (serial === undefined || userId === undefined) continue;
      this.#webhooks.remove(webhookId);
      if (hasMore || serial !== before.get(webhookId)) this.#webhooks.put(webhookId, userId, serial);
      served.add(userId);
    }
    for (const userId of served) this.#webhooks.moveAccountToEnd(userId);
  }

  #accountWants(userId: string): number {
    return userId === unknownAccount ? Number.POSITIVE_INFINITY : this.#demand.wantedOf(userId);
  }

  *#candidatesOf(userId: string, webhookIds: Iterable<string>): Generator<Candidate> {
    let remaining = this.#accountWants(userId);
    for (const webhookId of webhookIds) {
      if (remaining <= 0) return;
      const free = userId === unknownAccount ? unknownShare : this.#demand.wanted({ webhookId, userId });
      if (free <= 0) continue;
      remaining -= 1;
      yield { webhookId, userId, free };
    }
  }

  *#lines(): Generator<Generator<Candidate>> {
    for (const [userId, webhooks] of this.#webhooks.accounts()) yield this.#candidatesOf(userId, webhooks.keys());
  }
}
