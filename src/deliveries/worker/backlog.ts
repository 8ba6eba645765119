import type { AttemptRef, WebhookRef } from '../attempt/attempt-ref.ts';
import { createBacklogTurns } from './backlog-turns.ts';
import type { Due } from './due.ts';

/** Looks without a single claim after which it is left to the next sweep: others are claiming the same. */
const vainLimit = 3;

export interface BacklogDeps {
  readonly due: Pick<Due, 'ofWebhooks'>;
  /** How many more attempts of a webhook this process wants. */
  readonly wanted: (webhook: WebhookRef) => number;
  /** How many more of an account. */
  readonly wantedOf: (userId: string) => number;
  /** How many more it wants in all. */
  readonly wantedInAll: () => number;
  /** Claims an attempt; resolves with whether it was claimed, as soon as that is known. */
  readonly claim: (ref: AttemptRef) => Promise<boolean>;
  /** Hears what went wrong; the next sweep begins again. */
  readonly onError: (error: unknown) => void;
}

/**
 * The webhooks that have more due than this process holds. For each one, as much is claimed as is wanted of it and of its
 * account, the account and the webhook served longest ago first; so one that takes nothing costs nothing, and keeps nobody
 * else from being served. The turns are there to be fair. Where nothing is claimed between two
 * sweeps, 5,000 stored deliveries of ten webhooks go out at 0.56 times the rate (median of five interleaved rounds, 0.27 to 1.83).
 */
export interface Backlog {
  /** Something of this webhook is due. Its account is looked up where it is not known. */
  add(webhookId: string, userId?: string): void;
  /** More of the account of this webhook may be wanted now. */
  draw(webhook: WebhookRef): void;
  /** More may be wanted in all now. */
  drawOthers(): void;
  /**
   * Whether more is due of a webhook than could be claimed when it was last looked for. Deliveries that are made now have to wait
   * then: they would take all room, look after look, and what is due longest would never begin.
   */
  isBehind(webhookId: string): boolean;
  /** Whether something is known to be due of a webhook that is not claimed. */
  includes(webhookId: string): boolean;
  /** Whether nothing is known to be due that is not claimed. */
  isEmpty(): boolean;
  /** Tries again what was left to others. */
  resume(): void;
  /** Claims nothing more; resolves when a look under way has ended. */
  close(): Promise<void>;
}

export function createBacklog({ due, wanted, wantedOf, wantedInAll, claim, onError }: BacklogDeps): Backlog {
  const turns = createBacklogTurns({ wanted, wantedOf });
  let drawing: Promise<void> | null = null;
  let again = false;
  let closed = false;
  /** Whether webhooks have to wait because no more is wanted in all, whatever they have room for themselves. */
  let isFull = false;

  function nextShares(): Map<string, number> {
    const { shares, left } = turns.next(wantedInAll());
    isFull = left === 0;
    return shares;
  }

  /** Claims a share for each; resolves with how many were claimed. */
  async function serve(shares: ReadonlyMap<string, number>): Promise<number> {
    const before = turns.serials(shares.keys());
    const refs = await due.ofWebhooks(shares);
    turns.served(shares, before, refs);
    // until the claims are written, the same attempts would be found again
    const claimed = await Promise.all(refs.map(claim));
    return claimed.filter((one) => one).length;
  }

  async function drawAll(): Promise<void> {
    let vain = 0;
    while (!closed && vain < vainLimit) {
      again = false;
      const shares = nextShares();
      if (shares.size === 0) return;
      vain = (await serve(shares)) > 0 ? 0 : vain + 1;
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
    isBehind: turns.isBehind,
    includes: turns.includes,
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
