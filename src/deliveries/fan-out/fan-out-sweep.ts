import type { ClaimEvents } from '../../events/store/claim-events.ts';
import type { Outbox, PartOfQuery } from '../../events/store/outbox.ts';
import type { SettleSubscribers } from '../../events/store/settle-subscribers.ts';
import type { EventKey, HeldEvent, UnfinishedEvent } from '../../events/store/stored-event.ts';
import type { Logger } from '../../options/options.ts';
import type { FanOut } from './fan-out.ts';
import type { HeldEvents } from './held-events.ts';

/** After this time without room, some events are taken anyway: otherwise publications here might keep all room. Milliseconds. */
const longestWithoutRoom = 1_000;
/** First attempts of the events that are taken then. They are stored, and workers share them among accounts when they claim them. */
const maxWithoutRoom = 1_000;
/** More first attempts than publications leave room for now and then. */
const enough = 50;
/** Events in one page. */
const pageSize = 200;
/** Events whose failure is remembered, so that each is logged once. */
const rememberedLimit = 1_000;

export interface FanOutSweepDeps {
  readonly outbox: Pick<Outbox, 'unfinished'>;
  readonly take: ClaimEvents;
  /** How long the taken events are held. Milliseconds. */
  readonly lease: number;
  readonly settleSubscribers: SettleSubscribers;
  readonly fanOut: FanOut['fanOut'];
  /** Holds the taken events. */
  readonly heldEvents: Pick<HeldEvents, 'room'>;
  /** How many more attempts this process wants. It takes at most that many events at a time, and at least one. */
  readonly wanted: () => number;
  readonly logger: Logger;
}

/** Fans out the events that no process holds: from processes without workers, from transactions, and those whose process died. */
export interface FanOutSweep {
  /** A part of a query that finds the next events; `null` while there is no room, except once a second. */
  page(): PartOfQuery | null;
  /**
   * Takes the events of that page that are still free, as far as there is room, and starts their fan-outs. Resolves with whether
   * there may be more.
   */
  take(unfinished: readonly UnfinishedEvent[]): Promise<boolean>;
  /** Whether an event would be taken now. */
  readonly hasRoom: boolean;
  /** Whether events have waited for room and there is some now. */
  readonly mayGoOn: boolean;
}

/** A fan-out that fails holds up no other: its event comes again when its lease has lapsed. */
export function createFanOutSweep(deps: FanOutSweepDeps): FanOutSweep {
  const { outbox, settleSubscribers, fanOut, heldEvents, logger } = deps;
  const failed = new Set<string>();
  /** First attempts and bytes of the page. */
  let budget = { attempts: 0, bytes: 0 };
  /** When enough of the next events, or all of them, were last taken, by `performance.now()`. */
  let tookAt = Number.NEGATIVE_INFINITY;

  /** The room for events, or what is taken without room: then the bytes of one event. */
  function room(): { readonly attempts: number; readonly bytes: number } {
    const attempts = deps.wanted();
    const bytes = Math.max(heldEvents.room, 0);
    if (attempts >= enough && bytes > 0) return { attempts, bytes };
    if (performance.now() - tookAt > longestWithoutRoom) return { attempts: maxWithoutRoom, bytes };
    return { attempts: bytes > 0 ? attempts : 0, bytes };
  }

  const limitOf = (attempts: number) => Math.min(pageSize, attempts);

  async function begin({ event, lease }: HeldEvent): Promise<void> {
    await fanOut({ event: await settleSubscribers(event), lease });
    failed.delete(event._id);
  }

  /** The first events that there is room for. */
  function fitting(unfinished: readonly UnfinishedEvent[]): EventKey[] {
    let { attempts, bytes } = budget;
    const events: EventKey[] = [];
    for (const { _id, userId, targetCount, size } of unfinished) {
      attempts -= targetCount;
      bytes -= size;
      if ((attempts < 0 || bytes < 0) && events.length > 0) break;
      events.push({ _id, userId });
    }
    return events;
  }

  function logFailures(failures: readonly { id: string; reason: string }[]): void {
    if (failed.size >= rememberedLimit) failed.clear();
    const added = failures.filter(({ id }) => !failed.has(id)).slice(0, rememberedLimit - failed.size);
    const [first] = added;
    if (!first) return;
    for (const { id } of added) failed.add(id);
    const message = 'events could not be fanned out to their webhooks; the sweep tries again';
    logger.error(message, { count: added.length, event: first.id, reason: first.reason });
  }

  return {
    page() {
      budget = room();
      return budget.attempts > 0 ? outbox.unfinished(limitOf(budget.attempts)) : null;
    },
    async take(unfinished) {
      if (budget.attempts === 0) return false;
      const events = fitting(unfinished);
      const isMore = unfinished.length === limitOf(budget.attempts) || events.length < unfinished.length;
      // a few places that become free again and again must not postpone the rest again and again
      if (budget.attempts >= enough || !isMore) tookAt = performance.now();
      if (events.length === 0) return false;
      const leasedEvents = await deps.take(events, deps.lease);
      const results = await Promise.allSettled(leasedEvents.map(begin));
      logFailures(
        results.flatMap((result, i) =>
          result.status === 'rejected'
            ? [{ id: String(leasedEvents[i]?.event._id), reason: String(result.reason) }]
            : [],
        ),
      );
      return isMore;
    },
    get hasRoom() {
      return room().attempts > 0;
    },
    get mayGoOn() {
      return budget.attempts === 0 && room().attempts > 0;
    },
  };
}
