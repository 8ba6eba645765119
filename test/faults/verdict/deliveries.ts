import { createHash } from 'node:crypto';
import type { DeliveryDocument } from '../../../src/deliveries/model.ts';
import type { EventDocument } from '../../../src/events/model.ts';
import type { Arrival } from '../receivers.ts';
import { clockOffOf, type Disturbance, excusable } from './disturbances.ts';
import { clockTolerance, disagreements, isLost, isStuck } from './verdict.ts';

/** What the figures of the last line are made of. */
export interface Tally {
  faults: number;
  events: number;
  attempts: number;
  lost: number;
  duplicates: number;
  early: number;
  wrong: number;
  stuck: number;
  /** What exactly was lost, early, wrong or stuck. */
  notes: string[];
}

export function emptyTally(): Tally {
  return { faults: 0, events: 0, attempts: 0, lost: 0, duplicates: 0, early: 0, wrong: 0, stuck: 0, notes: [] };
}

/** What is compared: the promises made, what the database says became of them, and what receivers saw. */
export interface Evidence {
  readonly faults: number;
  readonly webhooks: readonly { readonly id: string; readonly name: string }[];
  /** Ids of the events that must be delivered. */
  readonly accepted: readonly string[];
  readonly events: ReadonlyMap<string, EventDocument>;
  readonly deliveries: readonly DeliveryDocument[];
  readonly arrivals: readonly Arrival[];
  readonly retryDelays: readonly number[];
  /** When what was broken. */
  readonly disturbances: readonly Disturbance[];
  /** What the publisher saw that may not be, such as one key with two events. */
  readonly publisherNotes: readonly string[];
}

const keyOf = (eventId: string, webhook: string) => `${eventId} ${webhook}`;

function groupArrivals(arrivals: readonly Arrival[]): Map<string, Arrival[]> {
  const groups = new Map<string, Arrival[]>();
  for (const arrival of arrivals) {
    const key = keyOf(arrival.eventId, arrival.webhook);
    groups.set(key, [...(groups.get(key) ?? []), arrival]);
  }
  for (const group of groups.values()) group.sort((a, b) => a.at - b.at);
  return groups;
}

/** Requests that are not what was published. */
function forgeries(came: readonly Arrival[], bodyHash: string): string[] {
  const found: string[] = [];
  if (came.some(({ signatureRight }) => !signatureRight)) found.push('a signature or id was not right');
  if (came.some((arrival) => arrival.bodyHash !== bodyHash)) found.push('the bytes differ from those stored');
  return found;
}

/** Arrivals sooner after a failure than the delay between attempts; a repetition of an unrecorded attempt may be. */
function earlyOnes(came: readonly Arrival[], repetitions: number, { retryDelays, disturbances }: Evidence): number {
  const shortest = Math.min(...retryDelays) - clockTolerance - clockOffOf(came, disturbances);
  const hasty = came.filter((arrival, i) => {
    const before = came[i - 1];
    return before !== undefined && arrival.at < before.answeredAt + shortest;
  });
  return Math.max(0, hasty.length - repetitions);
}

/** Arrivals of events that nobody has, or that had ended before; a worker that died or was cut off may have been late. */
function strays({ arrivals, accepted, disturbances }: Evidence): Arrival[] {
  const known = new Set(accepted);
  return arrivals.filter((one) => !known.has(one.eventId) && excusable([one], disturbances) === 0);
}

/** Holds what happened against what was promised. */
export function verify(evidence: Evidence): Tally {
  const tally = { ...emptyTally(), faults: evidence.faults, events: evidence.accepted.length };
  tally.notes.push(...evidence.publisherNotes);
  tally.wrong += evidence.publisherNotes.length;
  const arrivals = groupArrivals(evidence.arrivals);
  const deliveries = new Map(evidence.deliveries.map((one) => [keyOf(one.eventId, one.webhookId), one]));
  tally.attempts = evidence.arrivals.length;
  for (const one of strays(evidence)) {
    tally.wrong += 1;
    tally.notes.push(`${one.eventId} arrived at ${one.webhook}, and is no event of this row`);
  }

  for (const eventId of evidence.accepted) {
    const event = evidence.events.get(eventId);
    for (const { id, name } of evidence.webhooks) {
      const delivery = deliveries.get(keyOf(eventId, id));
      const came = arrivals.get(keyOf(eventId, name)) ?? [];
      const times = came.map(({ at, answeredAt }) => `${at}-${answeredAt}`).join(' ');
      const note = (what: string) =>
        tally.notes.push(`${eventId} to ${name}: ${what}; it came at ${times} ${JSON.stringify(delivery)}`);
      if (!event || !delivery) {
        tally.lost += 1;
        note('there is no record');
        continue;
      }
      const bodyHash = createHash('sha256').update(event.body).digest('hex');
      const found = [...forgeries(came, bodyHash), ...disagreements(delivery, came, evidence.disturbances)];
      const recorded = delivery.attempts.filter(({ status }) => status !== undefined).length;
      const repetitions = Math.max(0, came.length - recorded);
      const most = excusable(came, evidence.disturbances);
      if (repetitions > most) found.push(`${repetitions} attempts were repeated, and ${most} in flight at a fault`);
      const early = earlyOnes(came, repetitions, evidence);
      tally.duplicates += repetitions;
      tally.early += early;
      tally.wrong += found.length;
      for (const what of found) note(what);
      if (early > 0) note('early');
      if (isStuck(delivery) || event.fanOut === 'pending') {
        tally.stuck += 1;
        note('it is stuck');
      } else if (isLost(delivery, came)) {
        tally.lost += 1;
        note('it was lost');
      }
    }
  }
  return tally;
}

/** The sum of two tallies. */
export function add(a: Tally, b: Tally): Tally {
  return {
    faults: a.faults + b.faults,
    events: a.events + b.events,
    attempts: a.attempts + b.attempts,
    lost: a.lost + b.lost,
    duplicates: a.duplicates + b.duplicates,
    early: a.early + b.early,
    wrong: a.wrong + b.wrong,
    stuck: a.stuck + b.stuck,
    notes: [...a.notes, ...b.notes],
  };
}

/** The line a run is judged by. */
export function summary({ faults, events, attempts, lost, duplicates, early, wrong, stuck }: Tally): string {
  return `faults ${faults} · events ${events} · attempts ${attempts} · lost ${lost} · duplicates ${duplicates} · early ${early} · wrong ${wrong} · stuck ${stuck}`;
}

/** Whether everything was as promised. */
export function isClean({ lost, early, wrong, stuck }: Tally): boolean {
  return lost + early + wrong + stuck === 0;
}
