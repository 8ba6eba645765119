import type { HeldEvent, Outbox, PartOfQuery, UnfinishedEvent } from '../../events/store/outbox.ts';
import type { SettleSubscribers } from '../../events/store/settle-subscribers.ts';
import type { TakeEvents } from '../../events/store/take-events.ts';
import type { Logger } from '../../options/options.ts';
import type { FanOut } from './fan-out.ts';
import type { HeldEvents } from './held-events.ts';

/** How long there may be no room: then some events are taken all the same, for publications here may take all room for ever. Milliseconds. */
const longestWait = 1_000;
/** First attempts of events that are taken then; they are stored, and shared among accounts by those who claim them. */
const mostWithoutRoom = 1_000;
/** So many first attempts are more than what publications leave now and then. */
const enough = 50;
/** Events in one page. */
const pageSize = 200;
/** Events whose failure is remembered, so that it is logged once. */
const rememberedLimit = 1_000;

export interface FanOutSweepDeps {
  readonly outbox: Pick<Outbox, 'unfinished'>;
  readonly take: TakeEvents;
  /** How long what is taken is held. Milliseconds. */
  readonly lease: number;
  readonly settleSubscribers: SettleSubscribers;
  readonly fanOut: FanOut['fanOut'];
  /** What is taken is held there. */
  readonly heldEvents: Pick<HeldEvents, 'room'>;
  /** How many more attempts this process wants: it takes no more events than that at a time, but one at least. */
  readonly wanted: () => number;
  readonly logger: Logger;
}

/** Fans out the events that nobody holds: those of processes without workers, of transactions, and those that somebody left. */
export interface FanOutSweep {
  /** The events that are next, as part of a query; `null` as long as there is no room for any, but once a second. */
  page(): PartOfQuery | null;
  /** Takes those of that page that there is room for and that are still free, and begins their fan-outs; resolves with whether there may be more. */
  take(found: readonly UnfinishedEvent[]): Promise<boolean>;
  /** Whether any would be taken now. */
  readonly hasRoom: boolean;
  /** Whether there may be some that have waited for room, and need not any more. */
  readonly mayGoOn: boolean;
}

/** A fan-out that fails holds up no other: its event is next again when its lease has lapsed. */
export function createFanOutSweep(deps: FanOutSweepDeps): FanOutSweep {
  const { outbox, settleSubscribers, fanOut, heldEvents, logger } = deps;
  const failed = new Set<string>();
  /** First attempts and bytes of the page. */
  let budget = { attempts: 0, bytes: 0 };
  /** When enough of what was next, or all of it, was last taken, by `performance.now()`. */
  let tookAt = Number.NEGATIVE_INFINITY;

  /** What there is room for, or what is taken all the same: of bytes, those of one event. */
  function room(): { readonly attempts: number; readonly bytes: number } {
    const attempts = deps.wanted();
    const bytes = Math.max(heldEvents.room, 0);
    if (attempts >= enough && bytes > 0) return { attempts, bytes };
    if (performance.now() - tookAt > longestWait) return { attempts: mostWithoutRoom, bytes };
    return { attempts: bytes > 0 ? attempts : 0, bytes };
  }

  const limitOf = (attempts: number) => Math.min(pageSize, attempts);

  async function begin({ event, lease }: HeldEvent): Promise<void> {
    await fanOut({ event: await settleSubscribers(event), lease });
    failed.delete(event._id);
  }

  /** Those at the beginning that there is room for. */
  function fitting(found: readonly UnfinishedEvent[]): string[] {
    let { attempts, bytes } = budget;
    const ids: string[] = [];
    for (const { _id, targetCount, size } of found) {
      attempts -= targetCount;
      bytes -= size;
      if ((attempts < 0 || bytes < 0) && ids.length > 0) break;
      ids.push(_id);
    }
    return ids;
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
    async take(found) {
      if (budget.attempts === 0) return false;
      const ids = fitting(found);
      const isMore = found.length === limitOf(budget.attempts) || ids.length < found.length;
      // a few places that come free again and again may not put off the others for ever
      if (budget.attempts >= enough || !isMore) tookAt = performance.now();
      if (ids.length === 0) return false;
      const taken = await deps.take(ids, deps.lease);
      const results = await Promise.allSettled(taken.map(begin));
      logFailures(
        results.flatMap((result, i) =>
          result.status === 'rejected' ? [{ id: String(taken[i]?.event._id), reason: String(result.reason) }] : [],
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
