import type { DuePosition } from './claimable-attempts.ts';

/** How often a sweep goes through everything that is due, however much it is. Milliseconds. */
const fullSweepInterval = 10_000;
/** How much later a delivery may be stored than others with a later due time. Milliseconds. */
const overlap = 5_000;

/** Where each page of a sweep begins. */
export interface SweepCursor {
  /** The position after which the next page begins; `null` is the beginning. */
  begin(): DuePosition | null;
  /** Notes the position after which there is more, or with `null` that the end was reached. */
  reached(next: DuePosition | null): void;
}

/**
 * Goes through everything that is due, page by page, and then begins again. A webhook that hangs has more and more old
 * deliveries that are known to wait. If they do not fit into one page, a sweep goes through those that became due lately, and
 * only now and then through all. If a webhook hangs and has 100,000 due, a worker and mongod take 1.90 times the CPU (1.39 to
 * 3.35 in five interleaved rounds) when each sweep goes through everything; with 20,000 due, it is 2.16 times (1.10 to 2.83) when
 * it goes through all pages again and again.
 */
export function createSweepCursor(now: () => number = performance.now.bind(performance)): SweepCursor {
  let next: DuePosition | null = null;
  let lastPosition: DuePosition | null = null;
  let fullSweepAt = Number.NEGATIVE_INFINITY;

  return {
    begin() {
      if (next) return next;
      if (now() - fullSweepAt >= fullSweepInterval) {
        lastPosition = null;
        fullSweepAt = now();
      }
      return lastPosition && { claimableAt: new Date(lastPosition.claimableAt.getTime() - overlap), webhookId: '' };
    },
    reached(place) {
      next = place;
      lastPosition = place ?? lastPosition;
    },
  };
}
