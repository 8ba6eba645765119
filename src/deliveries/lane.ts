/** Attempts are claimed so far ahead as a webhook's places will presumably take them up within this. Milliseconds. */
const horizon = 300;
/** How much is claimed ahead for one webhook at the most, in multiples of its places. */
const aheadLimit = 40;
/** How much one request weighs in the mean time that a webhook takes to answer. */
const weight = 0.1;

/** The share of one webhook: how many of its attempts are where, and how far ahead it may be claimed for. */
export interface Lane {
  /** Attempts that are claimed or being claimed, whatever for. */
  held: number;
  /** Attempts whose request is under way. */
  sending: number;
  /** How many more attempts may be held now. */
  room(): number;
  /** Whether at least half of what may be claimed ahead is used up: a few more at a time would each cost as much as many. */
  isLow(): boolean;
  /** Notes that a request has ended after so many milliseconds. */
  ended(duration: number): void;
  /** Notes that a claimed attempt found no place in time. */
  stuck(): void;
}

/**
 * A webhook that answers quickly has attempts claimed ahead, so that a place that comes free is filled without asking
 * the database first; the quicker it is, the more. One that is slow gets little beyond its places, and one that hangs
 * nothing: what is claimed for it would only keep other workers, and its owner's changes, waiting.
 * @param places requests that may be under way at once
 */
export function createLane(places: number, now: () => number = performance.now.bind(performance)): Lane {
  let mean = horizon;
  let lastEnd = now();

  const hangs = (lane: Lane) => lane.sending >= places && now() - lastEnd > horizon;

  function ahead(lane: Lane): number {
    if (hangs(lane)) return 0;
    return Math.min(Math.floor((places * horizon) / Math.max(mean, 1)), places * aheadLimit);
  }

  return {
    held: 0,
    sending: 0,
    room() {
      return Math.max(0, places + ahead(this) - this.held);
    },
    isLow() {
      return this.held < places + ahead(this) / 2;
    },
    ended(duration) {
      lastEnd = now();
      mean += (duration - mean) * weight;
    },
    stuck() {
      mean = Math.max(mean, 2 * places * horizon);
    },
  };
}
