import type { AttemptRef, WebhookRef } from '../attempt/attempt-ref.ts';

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
/** Stands for the account of webhooks whose account is not known yet. */
const unknownAccount = '';

/** Decides whose turn it is in the backlog. */
export interface BacklogTurns {
  add(webhookId: string, userId?: string): void;
  /** Whether the account has something waiting, or the webhook if its account is not known. */
  has(webhook: WebhookRef): boolean;
  readonly size: number;
  /** Whether the webhook has something waiting. */
  includes(webhookId: string): boolean;
  /** Whether the last read found as much as it asked for: more may have been due for longer. */
  isBehind(webhookId: string): boolean;
  /** How many attempts of which webhooks to claim next, at most `limit` in all; and how many of the limit are left over. */
  next(limit: number): { readonly shares: Map<string, number>; readonly left: number };
  /** For each webhook, a number that changes when the webhook is added again. */
  serials(webhookIds: Iterable<string>): Map<string, number | undefined>;
  /** Moves the served webhooks to the end of the line, or out of it if nothing is left. */
  served(
    shares: ReadonlyMap<string, number>,
    before: ReadonlyMap<string, number | undefined>,
    found: readonly AttemptRef[],
  ): void;
}

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
  let left = lines;
  for (;;) {
    const rest: Iterator<T>[] = [];
    for (const line of left) {
      const { done, value } = line.next();
      if (done) continue;
      rest.push(line);
      yield value;
    }
    if (rest.length === 0) return;
    left = rest;
  }
}

/** Serves accounts in turn, and the webhooks of each account in turn. */
export function createBacklogTurns({ wanted, wantedOf }: Demand): BacklogTurns {
  /** By account and webhook, both in the order in which they were served, longest ago first. */
  const accounts = new Map<string, Map<string, number>>();
  const owners = new Map<string, string>();
  const behind = new Set<string>();
  let added = 0;

  function put(webhookId: string, userId: string, serial: number): void {
    const webhooks = accounts.get(userId) ?? new Map<string, number>();
    accounts.set(userId, webhooks.set(webhookId, serial));
    owners.set(webhookId, userId);
  }

  function remove(webhookId: string): void {
    const userId = owners.get(webhookId);
    if (userId === undefined) return;
    owners.delete(webhookId);
    const webhooks = accounts.get(userId);
    webhooks?.delete(webhookId);
    if (webhooks?.size === 0) accounts.delete(userId);
  }

  const serialOf = (webhookId: string) => accounts.get(owners.get(webhookId) ?? unknownAccount)?.get(webhookId);
  const accountWants = (userId: string) => (userId === unknownAccount ? Number.POSITIVE_INFINITY : wantedOf(userId));

  function* candidatesOf(userId: string, webhooks: ReadonlyMap<string, number>): Generator<Candidate> {
    let left = accountWants(userId);
    for (const webhookId of webhooks.keys()) {
      if (left <= 0) return;
      const free = userId === unknownAccount ? unknownShare : wanted({ webhookId, userId });
      if (free <= 0) continue;
      left -= 1;
      yield { webhookId, userId, free };
    }
  }

  function* lines(): Generator<Generator<Candidate>> {
    for (const [userId, webhooks] of accounts) yield candidatesOf(userId, webhooks);
  }

  return {
    add(webhookId, userId) {
      added += 1;
      const owner = userId ?? owners.get(webhookId) ?? unknownAccount;
      if (owner !== owners.get(webhookId)) remove(webhookId);
      put(webhookId, owner, added);
    },
    has: ({ userId, webhookId }) => accounts.has(userId) || owners.has(webhookId),
    get size() {
      return owners.size;
    },
    includes: (webhookId) => owners.has(webhookId),
    isBehind: (webhookId) => behind.has(webhookId),
    /** Divides the limit evenly among the webhooks, and an account's part evenly among its webhooks. */
    next(limit) {
      const shares = new Map<string, number>();
      const picked = [...take(inTurn(lines()), Math.min(webhooksAtOnce, limit))];
      const budgets = new Map<string, { left: number; webhooks: number }>();
      for (const { userId } of picked) {
        const budget = budgets.get(userId) ?? { left: accountWants(userId), webhooks: 0 };
        budget.webhooks += 1;
        budgets.set(userId, budget);
      }
      let left = limit;
      picked.forEach(({ webhookId, userId, free }, i) => {
        const budget = budgets.get(userId) ?? { left: 0, webhooks: 1 };
        const share = Math.min(free, Math.ceil(left / (picked.length - i)), Math.ceil(budget.left / budget.webhooks));
        shares.set(webhookId, share);
        left -= share;
        budget.left -= share;
        budget.webhooks -= 1;
      });
      return { shares, left };
    },
    serials: (webhookIds) => new Map([...webhookIds].map((webhookId) => [webhookId, serialOf(webhookId)])),
    served(shares, before, found) {
      const counts = new Map<string, number>();
      const learned = new Map<string, string>();
      for (const { webhookId, userId } of found) {
        counts.set(webhookId, (counts.get(webhookId) ?? 0) + 1);
        learned.set(webhookId, userId);
      }
      const accountsServed = new Set<string>();
      for (const [webhookId, share] of shares) {
        const hasMore = (counts.get(webhookId) ?? 0) >= share;
        if (hasMore) behind.add(webhookId);
        else behind.delete(webhookId);
        const serial = serialOf(webhookId);
        const owner = learned.get(webhookId) ?? owners.get(webhookId);
        if (serial === undefined || owner === undefined) continue;
        remove(webhookId);
        if (hasMore || serial !== before.get(webhookId)) put(webhookId, owner, serial);
        accountsServed.add(owner);
      }
      for (const userId of accountsServed) {
        const webhooks = accounts.get(userId);
        if (!webhooks) continue;
        accounts.delete(userId);
        accounts.set(userId, webhooks);
      }
    },
  };
}
