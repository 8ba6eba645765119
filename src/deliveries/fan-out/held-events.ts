import type { RenewEvents } from '../../events/store/claim-events.ts';
import type { HeldEvent, StoredEvent } from '../../events/store/stored-event.ts';
import { createPeriodic } from '../../mongo/periodic.ts';
import type { Logger } from '../../options/options.ts';

/** A renewal without an answer is repeated after this time. Milliseconds. */
const longestRenewal = 1_000;
/** The weight of all events that are fanned out here at once; further events stay in the database. Bytes. */
const weightLimit = 32 * 1024 * 1024;
/** The weight of an event without its body, and of each target. Bytes. */
const eventWeight = 4_096;
const targetWeight = 512;

/** The events whose fan-out is under way here: their weight and their leases. */
export interface HeldEvents {
  /** How much more may be held; nothing if it is 0 or less. Bytes. */
  readonly room: number;
  /** Keeps the event's lease alive from now on. If it is held already, it continues under this lease. */
  hold(held: HeldEvent): void;
  /** The event's fan-out has ended. */
  release(eventId: string): void;
}

/** Durations are milliseconds. */
export interface HeldEventsDeps {
  readonly renew: RenewEvents;
  /** How long a lease lasts after a renewal. */
  readonly lease: number;
  /** How often leases are checked. @default 250 */
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

/** Renews a lease when half of it is over. Nearly every fan-out ends before. */
export function createHeldEvents({ renew, lease, lookInterval = 250, logger }: HeldEventsDeps): HeldEvents {
  const entries = new Map<string, Entry>();
  let weight = 0;

  async function renewOld(): Promise<void> {
    // the new lease starts later than this, by the database's clock
    const askedAt = performance.now();
    const old = [...entries.values()].filter(({ heldUntil }) => heldUntil < askedAt + lease / 2);
    if (old.length === 0) return;
    await renew(
      old.map(({ event }) => event),
      lease,
    );
    for (const entry of old) entry.heldUntil = Math.max(entry.heldUntil, askedAt + lease);
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
