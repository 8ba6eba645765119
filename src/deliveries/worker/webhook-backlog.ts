import type { AttemptRef, WebhookRef } from '../attempt/attempt-ref.ts';
import { BacklogTurns, type Demand } from './backlog-turns.ts';
import type { ClaimableAttempts } from './claimable-attempts.ts';

/** After this many reads without a single claim, the next sweep continues: other processes are claiming the same attempts. */
const maxReadsWithoutClaim = 3;

export interface BacklogDeps extends Demand {
  readonly due: Pick<ClaimableAttempts, 'ofWebhooks'>;
  /** How many more attempts this process wants in all. */
  readonly wantedInAll: () => number;
  /** Claims an attempt; resolves with whether it was claimed. */
  readonly claim: (ref: AttemptRef) => Promise<boolean>;
  /** Receives errors; the next sweep tries again. */
  readonly onError: (error: unknown) => void;
}

/**
 * The webhooks that have more due than this process holds. Of each webhook it claims as much as is wanted of the webhook and its
 * account; the account and the webhook served longest ago come first. A webhook of which nothing is wanted costs nothing and
 * holds up no other. If nothing were claimed between two sweeps, 5,000 stored deliveries of ten webhooks would go out at 0.56
 * times the rate (median of five interleaved rounds, 0.27 to 1.83).
 */
export interface WebhookBacklog {
  /** Something of this webhook is due. Without `userId`, its account is looked up. */
  add(webhookId: string, userId?: string): void;
  /** More attempts of this webhook's account may be wanted now. */
  draw(webhook: WebhookRef): void;
  /** More attempts may be wanted in all now. */
  drawOthers(): void;
  /**
   * Whether the last read of the webhook found more due than could be claimed. New deliveries must wait then: otherwise they
   * would take all room again and again, and the delivery that is due longest would never begin.
   */
  isBehind(webhookId: string): boolean;
  /** Whether the webhook is known to have something due that is not claimed. */
  includes(webhookId: string): boolean;
  /** Whether nothing is known to be due that is not claimed. */
  isEmpty(): boolean;
  /** Tries again what was left to others. */
  resume(): void;
  /** Claims nothing more; resolves when the read under way has ended. */
  close(): Promise<void>;
}

export function createWebhookBacklog({
  due,
  wanted,
  wantedOf,
  wantedInAll,
  claim,
  onError,
}: BacklogDeps): WebhookBacklog {
  const turns = new BacklogTurns({ wanted, wantedOf });
  let drawing: Promise<void> | null = null;
  let again = false;
  let closed = false;
  /** Whether webhooks wait because no more is wanted in all, although they have room themselves. */
  let isFull = false;

  function nextShares(): Map<string, number> {
    const { shares, left } = turns.next(wantedInAll());
    isFull = left === 0;
    return shares;
  }

  /** Claims the shares; resolves to the number of claimed attempts. */
  async function serve(shares: ReadonlyMap<string, number>): Promise<number> {
    const before = turns.serials(shares.keys());
    const refs = await due.ofWebhooks(shares);
    turns.served(shares, before, refs);
    // a read before the claims are written would find the same attempts again
    const claimed = await Promise.all(refs.map(claim));
    return claimed.filter(Boolean).length;
  }

  async function drawAll(): Promise<void> {
    let readsWithoutClaim = 0;
    while (!closed && readsWithoutClaim < maxReadsWithoutClaim) {
      again = false;
      const shares = nextShares();
      if (shares.size === 0) return;
      readsWithoutClaim = (await serve(shares)) > 0 ? 0 : readsWithoutClaim + 1;
    }
  }

  function start(): void {
    if (closed) return;
    again = true;
    drawing ??= drawAll()
      .catch(onError)
      .then(() => {
        drawing = null;
        if (again) start();
      });
  }

  return {
    add(webhookId, userId) {
      turns.add(webhookId, userId);
      start();
    },
    draw(webhook) {
      if (turns.has(webhook) && wantedOf(webhook.userId) > 0) start();
    },
    drawOthers() {
      if (isFull && turns.size > 0 && wantedInAll() > 0) start();
    },
    isBehind: (webhookId) => turns.isBehind(webhookId),
    includes: (webhookId) => turns.includes(webhookId),
    isEmpty: () => turns.size === 0,
    resume() {
      if (turns.size > 0) start();
    },
    async close() {
      closed = true;
      await drawing;
    },
  };
}
