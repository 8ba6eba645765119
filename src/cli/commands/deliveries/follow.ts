import type { Schemas } from '../../client/api.ts';
import { gather, type ResultPage } from '../../client/pages.ts';

type Summary = Schemas['DeliverySummary'];

export interface FollowDeps {
  /** Deliveries, newest first. */
  readonly list: (query: { limit: number; after?: string; since?: string }) => Promise<ResultPage<Summary>>;
  readonly get: (id: string) => Promise<Schemas['DeliveryDetails']>;
  readonly now: () => number;
  /** How many of the past to begin with. */
  readonly past: number;
  /** None made before; ISO 8601, UTC. */
  readonly since?: string | undefined;
}

/** Milliseconds that a delivery may appear later than one made after it: each is written when its event is fanned out. */
const overlap = 10_000;
/** Pending ones outside the overlap that are looked at in one go. */
const maxOlder = 20;
/** Milliseconds that clocks may differ by when an attempt is taken to be due. */
const skew = 5_000;

/** A change of this is worth a line. The start of an attempt is not; its end is. */
function markOf({ state, attempts_made: attempts, last_code: code, last_status: status }: Summary): string {
  return [state, attempts, code, status].join(' ');
}

function mayHaveChanged({ state, in_flight: inFlight, next_attempt_at: next }: Summary, now: number): boolean {
  return state === 'pending' && (inFlight || next === null || Date.parse(next) <= now + skew);
}

function withoutDetails({
  url: _,
  body: __,
  attempts: ___,
  schedule: ____,
  ...summary
}: Schemas['DeliveryDetails']): Summary {
  return summary;
}

/**
 * Follows deliveries by looking at the list again and again: the newest few seconds whole, and older pending ones when
 * an attempt is due. All time comparisons but the last are the gateway's own.
 */
export function follow({ list, get, now, past, since }: FollowDeps): { changes(): Promise<Summary[]> } {
  /** Every delivery that may still appear or change, as it was last seen, in the order it was last looked at. */
  const latestById = new Map<string, Summary>();
  let horizon = since;
  let hasBegun = false;

  function note(delivery: Summary): boolean {
    const before = latestById.get(delivery.id);
    latestById.delete(delivery.id);
    latestById.set(delivery.id, delivery);
    return !before || markOf(before) !== markOf(delivery);
  }

  function advance([newest]: readonly Summary[]): void {
    if (!newest) return;
    const edge = new Date(Date.parse(newest.created_at) - overlap).toISOString();
    if (horizon === undefined || edge > horizon) horizon = edge;
    for (const [id, { state, created_at: created }] of latestById) {
      if (state !== 'pending' && created < horizon) latestById.delete(id);
    }
  }

  async function recent(): Promise<Summary[]> {
    const bound = horizon === undefined ? {} : { since: horizon };
    return (await gather(Number.POSITIVE_INFINITY, (query) => list({ ...bound, ...query }))).data;
  }

  async function begin(): Promise<Summary[]> {
    const read = (limit: number) => gather(limit, (query) => list({ ...(since && { since }), ...query }));
    const { data: latest } = await read(1);
    if (latest.length === 0) {
      hasBegun = true;
      return [];
    }
    advance(latest);
    // all of these are known, shown or not: later they would look new
    const newest = await recent();
    // one more may have been made since, so what is shown and what is known come of one read wherever that is enough
    const shown = newest.length < past ? (await read(past)).data : newest.slice(0, past);
    for (const delivery of [...newest, ...shown]) note(delivery);
    advance(newest);
    hasBegun = true;
    return shown.toReversed();
  }

  async function older(seen: ReadonlySet<string>): Promise<Summary[]> {
    const due = [...latestById.values()].filter(
      (delivery) => !seen.has(delivery.id) && mayHaveChanged(delivery, now()),
    );
    return Promise.all(due.slice(0, maxOlder).map(async ({ id }) => withoutDetails(await get(id))));
  }

  return {
    /** What is new or has changed since the last time, oldest first. */
    async changes() {
      if (!hasBegun) return begin();
      const newest = await recent();
      const others = await older(new Set(newest.map(({ id }) => id)));
      const changed = [...others, ...newest.toReversed()].filter(note);
      advance(newest);
      return changed;
    },
  };
}
