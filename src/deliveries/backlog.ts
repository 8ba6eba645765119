import type { Due } from './due.ts';
import type { Bell } from './intake.ts';

/** Webhooks in one look. */
const webhooksAtOnce = 100;
/** Looks without a single claim after which it is left to the next sweep: others are claiming the same. */
const vainLimit = 3;

export interface BacklogDeps {
  readonly due: Pick<Due, 'ofWebhooks'>;
  /** How many more attempts of a webhook this process wants. */
  readonly wanted: (webhookId: string) => number;
  /** How many more it wants in all. */
  readonly wantedInAll: () => number;
  /** Claims an attempt; resolves with whether it was claimed, as soon as that is known. */
  readonly claim: (bell: Bell) => Promise<boolean>;
  /** Hears what went wrong; the next sweep begins again. */
  readonly onError: (error: unknown) => void;
}

/**
 * The webhooks that have more due than this process holds. For each one, as much is claimed as is wanted of it, the one
 * served longest ago first; so a webhook that takes nothing costs nothing, and keeps nobody else from being served.
 */
export interface Backlog {
  /** Something of this webhook is due. */
  add(webhookId: string): void;
  /** More of this one may be wanted now. */
  draw(webhookId: string): void;
  /** More may be wanted in all now. */
  drawOthers(): void;
  /** Tries again what was left to others. */
  resume(): void;
  /** Claims nothing more; resolves when a look under way has ended. */
  close(): Promise<void>;
}

/** Asks for no more of them than so many. */
function* take<T>(items: Iterator<T>, most: number): Generator<T> {
  for (let count = 0; count < most; count += 1) {
    const { done, value } = items.next();
    if (done) return;
    yield value;
  }
}

export function createBacklog({ due, wanted, wantedInAll, claim, onError }: BacklogDeps): Backlog {
  /** The one served longest ago first; the number tells whether it was added again. */
  const waiting = new Map<string, number>();
  let added = 0;
  let drawing: Promise<void> | null = null;
  let again = false;
  let closed = false;
  /** Whether webhooks have to wait because no more is wanted in all, whatever they have room for themselves. */
  let isFull = false;

  /** Webhooks that more is wanted of, the one served longest ago first. */
  function* inTurn(): Generator<readonly [string, number]> {
    for (const webhookId of waiting.keys()) {
      const free = wanted(webhookId);
      if (free > 0) yield [webhookId, free];
    }
  }

  /** What is wanted in all is divided evenly. */
  function nextShares(): Map<string, number> {
    const shares = new Map<string, number>();
    let left = wantedInAll();
    const next = [...take(inTurn(), Math.min(webhooksAtOnce, left))];
    next.forEach(([webhookId, free], i) => {
      const share = Math.min(free, Math.ceil(left / (next.length - i)));
      shares.set(webhookId, share);
      left -= share;
    });
    isFull = left === 0;
    return shares;
  }

  /** Claims a share for each; resolves with how many were claimed. */
  async function serve(shares: ReadonlyMap<string, number>): Promise<number> {
    const before = new Map([...shares.keys()].map((webhookId) => [webhookId, waiting.get(webhookId)]));
    const bells = await due.ofWebhooks(shares);
    const counts = new Map<string, number>();
    for (const { webhookId } of bells) counts.set(webhookId, (counts.get(webhookId) ?? 0) + 1);
    for (const [webhookId, share] of shares) {
      const serial = waiting.get(webhookId);
      if (serial === undefined) continue;
      waiting.delete(webhookId);
      const isDone = (counts.get(webhookId) ?? 0) < share && serial === before.get(webhookId);
      if (!isDone) waiting.set(webhookId, serial);
    }
    // until the claims are written, the same attempts would be found again
    const claimed = await Promise.all(bells.map(claim));
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
    add(webhookId) {
      added += 1;
      waiting.set(webhookId, added);
      start();
    },
    draw(webhookId) {
      if (waiting.has(webhookId)) start();
    },
    drawOthers() {
      if (isFull && waiting.size > 0 && wantedInAll() > 0) start();
    },
    resume() {
      if (waiting.size > 0) start();
    },
    async close() {
      closed = true;
      await drawing;
    },
  };
}
