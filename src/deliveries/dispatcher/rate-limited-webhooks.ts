import type { WebhookRef } from '../attempt/attempt-ref.ts';

/** How long a limit is remembered after it was met: it may have been changed or removed. Milliseconds. */
const rememberedFor = 5_000;
/** Entries above which those that are forgotten are looked for. */
const cleanAbove = 1_000;
/** What is due again at the end of a pause is due a little later by the database's clock. Milliseconds. */
const slack = 20;

interface Entry {
  /** Attempts that may wait for their permit at once. */
  readonly ahead: number;
  /** No attempt may be claimed before, by `performance.now()`. */
  readonly pausedUntil: number;
  readonly forgetAt: number;
  readonly timer: NodeJS.Timeout | undefined;
}

/** The rate limits that this process has met lately, so that it claims no more attempts than it can soon send. */
export class RateLimitedWebhooks {
  readonly #entries = new Map<string, Entry>();
  readonly #onResume: (webhook: WebhookRef) => void;

  /** @param onResume called when attempts of a webhook may be claimed again */
  constructor(onResume: (webhook: WebhookRef) => void) {
    this.#onResume = onResume;
  }

  /**
   * @param ahead attempts that may wait for their permit at once
   * @param pause milliseconds before more of them are worth a claim
   */
  note(webhook: WebhookRef, ahead: number, pause: number): void {
    const now = performance.now();
    const { webhookId } = webhook;
    const before = this.#entries.get(webhookId);
    const pausedUntil = Math.max(before?.pausedUntil ?? 0, pause > 0 ? now + pause + slack : 0);
    const isLonger = pausedUntil !== before?.pausedUntil && pausedUntil > now;
    if (isLonger) clearTimeout(before?.timer);
    const timer = isLonger ? setTimeout(() => this.#onResume(webhook), pausedUntil - now) : before?.timer;
    this.#entries.set(webhookId, { ahead, pausedUntil, forgetAt: Math.max(now, pausedUntil) + rememberedFor, timer });
    if (this.#entries.size > cleanAbove) this.#clean(now);
  }

  has(webhookId: string): boolean {
    return this.#get(webhookId) !== undefined;
  }

  /**
   * How many more attempts may be held.
   * @param waiting attempts held that are not under way
   */
  room(webhookId: string, waiting: number): number {
    const entry = this.#entries.size > 0 ? this.#get(webhookId) : undefined;
    if (!entry) return Number.POSITIVE_INFINITY;
    return performance.now() < entry.pausedUntil ? 0 : Math.max(0, entry.ahead - waiting);
  }

  /** Whether at least half of the attempts that may wait have gone: claiming a few costs as much as claiming many. */
  isLow(webhookId: string, waiting: number): boolean {
    const entry = this.#entries.size > 0 ? this.#get(webhookId) : undefined;
    return !entry || waiting <= entry.ahead / 2;
  }

  close(): void {
    for (const { timer } of this.#entries.values()) clearTimeout(timer);
    this.#entries.clear();
  }

  #get(webhookId: string): Entry | undefined {
    const entry = this.#entries.get(webhookId);
    return entry && performance.now() < entry.forgetAt ? entry : undefined;
  }

  #clean(now: number): void {
    for (const [webhookId, { forgetAt }] of this.#entries) if (forgetAt <= now) this.#entries.delete(webhookId);
  }
}
