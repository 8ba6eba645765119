import type { WebhookRef } from '../attempt/attempt-ref.ts';
import type { AccountShares } from './account-shares.ts';
import type { RateLimitedWebhooks } from './rate-limited-webhooks.ts';
import { type AccountQueues, createWebhookQueue, type WebhookQueue } from './webhook-queue.ts';

/** A webhook that has attempts, or will have: its account and its queue. */
export interface WebhookEntry {
  readonly ref: WebhookRef;
  readonly account: AccountQueues;
  readonly queue: WebhookQueue;
}

export interface HeldCountsOptions {
  readonly shares: AccountShares;
  /** Requests under way at once to one webhook. */
  readonly perWebhook: number;
  readonly limited: RateLimitedWebhooks;
  /** How many more attempts may be held in all. */
  readonly roomInAll: () => number;
}

/** Counts the held attempts of each account and webhook, and knows how many more may be held. */
export class HeldCounts {
  readonly #shares: AccountShares;
  readonly #perWebhook: number;
  readonly #limited: RateLimitedWebhooks;
  readonly #roomInAll: () => number;
  readonly #accounts = new Map<string, AccountQueues>();
  /** The webhook for which `ask` found room last: the caller offers an attempt for it next. */
  #asked: WebhookEntry | null = null;

  constructor({ shares, perWebhook, limited, roomInAll }: HeldCountsOptions) {
    this.#shares = shares;
    this.#perWebhook = perWebhook;
    this.#limited = limited;
    this.#roomInAll = roomInAll;
  }

  of(ref: WebhookRef): WebhookEntry {
    const entry = this.#asked;
    return entry?.ref.webhookId === ref.webhookId && entry.ref.userId === ref.userId ? entry : this.#find(ref);
  }

  /** Whether attempts of this webhook are held. */
  has({ userId, webhookId }: WebhookRef): boolean {
    return this.#accounts.get(userId)?.queues.has(webhookId) ?? false;
  }

  /** How many more attempts may be held. */
  room({ ref, account, queue }: WebhookEntry): number {
    const inAll = this.#roomInAll();
    const { window } = queue;
    const within = this.#limited.room(ref.webhookId, window.held - window.sending);
    return inAll && Math.min(inAll, account.share.window.room(), window.room(), within);
  }

  /** The same for a webhook to which the next offer probably goes. */
  ask(ref: WebhookRef): number {
    const entry = this.#find(ref);
    const room = this.room(entry);
    this.#asked = room > 0 ? entry : null;
    return room;
  }

  /** How many more attempts of this webhook are worth a query. */
  wanted(ref: WebhookRef): number {
    const entry = this.#find(ref);
    const { window } = entry.queue;
    const isLow = window.isLow() && this.#limited.isLow(ref.webhookId, window.held - window.sending);
    return isLow ? this.room(entry) : 0;
  }

  /** The same for all webhooks of an account. */
  wantedOf(userId: string): number {
    const { window } = this.#account(userId).share;
    return window.isLow() ? Math.min(this.#roomInAll(), window.room()) : 0;
  }

  hold({ ref, account, queue }: WebhookEntry): void {
    this.#asked = null;
    if (account.queues.size === 0) this.#accounts.set(ref.userId, account);
    if (queue.window.held === 0) account.queues.set(ref.webhookId, queue);
    account.share.hold();
    queue.window.held += 1;
  }

  /** Forgets a webhook, and an account, without attempts. */
  release({ ref, account, queue }: WebhookEntry): void {
    this.#asked = null;
    queue.window.held -= 1;
    account.share.release();
    if (queue.window.held === 0) account.queues.delete(ref.webhookId);
    if (account.queues.size === 0) this.#accounts.delete(ref.userId);
  }

  #find(ref: WebhookRef): WebhookEntry {
    const account = this.#account(ref.userId);
    const queue = account.queues.get(ref.webhookId) ?? createWebhookQueue(account.share, this.#perWebhook);
    return { ref, account, queue };
  }

  #account(userId: string): AccountQueues {
    return this.#accounts.get(userId) ?? { share: this.#shares.of(userId), queues: new Map(), turns: new Set() };
  }
}
