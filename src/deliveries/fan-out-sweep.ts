import type { EventPlace, Outbox, PartOfQuery, StoredEvent } from '../events/outbox.ts';
import type { SettleSubscribers } from '../events/settle-subscribers.ts';
import type { Logger } from '../options.ts';

/** A publisher may still be fanning out an event of this age. Milliseconds. */
const grace = 50;
/** Events in one page. */
const pageSize = 100;
/** Events whose failure is remembered, so that it is logged once. */
const rememberedLimit = 1_000;

export interface FanOutSweepDeps {
  readonly outbox: Pick<Outbox, 'unfinished'>;
  /** Makes sure that the event misses no webhook. @default it does not */
  readonly settleSubscribers?: SettleSubscribers;
  readonly fanOut: (event: StoredEvent) => Promise<void>;
  readonly logger: Logger;
  /** Milliseconds. @default performance.now */
  readonly now?: () => number;
}

/** Finishes the fan-outs that their publishers did not finish. */
export interface FanOutSweep {
  /** The page of events that is next, as part of a query. */
  page(): PartOfQuery;
  /** Fans out the events of that page; resolves with whether there may be more. Never rejects. */
  finish(events: readonly StoredEvent[]): Promise<boolean>;
}

/**
 * Goes page by page through all events that were pending when the pass began, and then begins again. A fan-out that fails
 * holds up no other: the pass goes on after it, and the next pass tries it again.
 */
export function createFanOutSweep(deps: FanOutSweepDeps): FanOutSweep {
  const {
    outbox,
    settleSubscribers = async (event) => event,
    fanOut,
    logger,
    now = performance.now.bind(performance),
  } = deps;
  let after: EventPlace | undefined;
  let startedAt = 0;
  let hasFailed = false;
  const failed = new Set<string>();

  function logFailures(failures: readonly { id: string; reason: string }[]): void {
    hasFailed ||= failures.length > 0;
    const added = failures.filter(({ id }) => !failed.has(id)).slice(0, rememberedLimit - failed.size);
    const [first] = added;
    if (!first) return;
    for (const { id } of added) failed.add(id);
    const message = 'events could not be fanned out to their webhooks; the sweep tries again';
    logger.error(message, { count: added.length, event: first.id, reason: first.reason });
  }

  function endPass(): void {
    after = undefined;
    if (!hasFailed) failed.clear();
    hasFailed = false;
  }

  return {
    page() {
      if (!after) startedAt = now();
      // the pass has an end, whatever is accepted meanwhile
      const olderThan = grace + Math.ceil(now() - startedAt);
      return outbox.unfinished({ limit: pageSize, olderThan, ...(after && { after }) });
    },
    async finish(events) {
      const results = await Promise.allSettled(events.map(async (event) => fanOut(await settleSubscribers(event))));
      logFailures(
        results.flatMap((result, i) =>
          result.status === 'rejected' ? [{ id: String(events[i]?._id), reason: String(result.reason) }] : [],
        ),
      );
      const hasMore = events.length === pageSize;
      if (hasMore) after = events.at(-1);
      else endPass();
      return hasMore;
    },
  };
}
