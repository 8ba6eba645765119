/** How long a rate limit is remembered after it was met: it may have been changed or removed. Milliseconds. */
const rememberedFor = 5_000;
/** Rate limits above which those that are forgotten are looked for. */
const cleanAbove = 1_000;

interface MetLimit {
  /** Attempts that may wait for their permit at once. */
  readonly ahead: number;
  /** No attempt may be claimed before. */
  readonly pausedUntil: number;
  readonly forgetAt: number;
}

/**
 * The rate limits that this process has met lately, by webhook, so that it claims no more attempts than it can soon send. Pure: `now`
 * is a monotonic time in milliseconds, and `waiting` the number of held attempts that are not under way.
 */
export class MetLimits {
  readonly #limits = new Map<string, MetLimit>();

  /** @returns whether a longer pause than before has begun */
  note(webhookId: string, ahead: number, pause: number, now: number): boolean {
    const before = this.#limits.get(webhookId)?.pausedUntil ?? 0;
    const pausedUntil = Math.max(before, pause > 0 ? now + pause : 0);
    this.#limits.set(webhookId, { ahead, pausedUntil, forgetAt: Math.max(now, pausedUntil) + rememberedFor });
    if (this.#limits.size > cleanAbove) {
      for (const [id, { forgetAt }] of this.#limits) if (forgetAt <= now) this.#limits.delete(id);
    }
    return pausedUntil > before && pausedUntil > now;
  }

  has(webhookId: string, now: number): boolean {
    return this.#get(webhookId, now) !== undefined;
  }

  /** How many more attempts may be held. */
  room(webhookId: string, waiting: number, now: number): number {
    const limit = this.#limits.size > 0 ? this.#get(webhookId, now) : undefined;
    if (!limit) return Number.POSITIVE_INFINITY;
    return now < limit.pausedUntil ? 0 : Math.max(0, limit.ahead - waiting);
  }

  /** Whether at least half of the attempts that may wait have gone: claiming a few costs as much as claiming many. */
  isLow(webhookId: string, waiting: number, now: number): boolean {
    const limit = this.#limits.size > 0 ? this.#get(webhookId, now) : undefined;
    return !limit || waiting <= limit.ahead / 2;
  }

  #get(webhookId: string, now: number): MetLimit | undefined {
    const limit = this.#limits.get(webhookId);
    return limit && now < limit.forgetAt ? limit : undefined;
  }
}
