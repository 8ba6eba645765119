import type { HeldEvent, StoredEvent } from '../../events/store/outbox.ts';
import type { RenewEvents } from '../../events/store/take-events.ts';
import { createPeriodic } from '../../mongo/periodic.ts';
import type { Logger } from '../../options/options.ts';

/** After so long a renewal that has no answer is asked for again. Milliseconds. */
const longestRenewal = 1_000;
/** What events that are being fanned out here may weigh together; the next ones are left in the database. Bytes. */
const weightLimit = 32 * 1024 * 1024;
/** What an event weighs beside its body, and each of its targets. Bytes. */
const eventWeight = 4_096;
const targetWeight = 512;

/** The events whose fan-out is under way here: what they weigh together, and their leases. */
export interface HeldEvents {
  /** How much more may be held; none where it is not above 0. Bytes. */
  readonly room: number;
  /** Keeps its lease alive from now on. One that is held already goes on under this lease. */
  hold(held: HeldEvent): void;
  /** Its fan-out has ended. */
  release(eventId: string): void;
}

/** Durations are milliseconds. */
export interface HeldEventsDeps {
  readonly renew: RenewEvents;
  /** How long a lease lasts from its renewal. */
  readonly lease: number;
  /** How often it is looked for leases to renew. @default 250 */
  readonly lookInterval?: number;
  readonly logger: Logger;
}

interface Entry {
  readonly event: StoredEvent;
  readonly weight: number;
  heldUntil: number;
}

function weightOf({ body, targets }: StoredEvent): number {
  return eventWeight + (body?.length ?? 0) + targets.length * targetWeight;
}

/** A lease is renewed when half of it is over; nearly every fan-out has ended before. */
export function createHeldEvents({ renew, lease, lookInterval = 250, logger }: HeldEventsDeps): HeldEvents {
  const entries = new Map<string, Entry>();
  let weight = 0;

  async function renewOld(): Promise<void> {
    // the database's clock starts the new lease later than this
    const asked = performance.now();
    const old = [...entries.values()].filter(({ heldUntil }) => heldUntil < asked + lease / 2);
    if (old.length === 0) return;
    await renew(
      old.map(({ event }) => event),
      lease,
    );
    for (const entry of old) entry.heldUntil = Math.max(entry.heldUntil, asked + lease);
  }

  const renewal = createPeriodic({
    name: 'renewing the leases of events',
    task: renewOld,
    interval: lookInterval,
    initialDelay: lookInterval,
    longestRun: longestRenewal,
    logger,
  });

  return {
    get room() {
      return weightLimit - weight;
    },
    hold({ event, lease: { heldUntil } }) {
      weight -= entries.get(event._id)?.weight ?? 0;
      const entry = { event, heldUntil, weight: weightOf(event) };
      entries.set(event._id, entry);
      weight += entry.weight;
      renewal.start();
    },
    release(eventId) {
      weight -= entries.get(eventId)?.weight ?? 0;
      entries.delete(eventId);
      if (entries.size === 0) void renewal.stop();
    },
  };
}
