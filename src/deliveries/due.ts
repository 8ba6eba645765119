import type { EventDocument, EventModel } from '../events/model.ts';
import type { ClaimEvents, EventKey, Outbox, SettleSubscribers, UnfinishedEvent } from '../events/outbox.ts';
import { durableCollection } from '../mongo/collection.ts';
import { createPeriodic, type OnRun } from '../mongo/periodic.ts';
import { createWatch } from '../mongo/watch.ts';
import type { ResolvedOptions } from '../options/options.ts';
import type { AttemptDeps } from './attempt.ts';
import { createSweepCursor, type DueAttempts, type PartOfLook } from './due-reads.ts';
import { createShortReads, type FanOut } from './fan-out.ts';
import type { Jobs } from './jobs.ts';
import type { DeliveryDocument, DeliveryModel } from './model.ts';
import type { Scheduler } from './scheduler.ts';

/** Deliveries in one page of a sweep. */
const pageSize = 1_000;
/** The longest that one sweep may take, and a little more. Milliseconds. */
const longestSweep = 10_000;

export interface DueDeps
  extends Pick<ResolvedOptions['deliveries'], 'sweepInterval' | 'changeStreams'>,
    Pick<ResolvedOptions, 'logger'> {
  readonly deliveries: DeliveryModel;
  readonly events: EventModel;
  readonly reads: Pick<DueAttempts, 'look'>;
  readonly scheduler: Scheduler;
  readonly unfinished: UnfinishedEvents;
  readonly jobs: Jobs;
  /** Called after each sweep. @default nobody is */
  readonly onSwept?: OnRun;
}

export type Due = ReturnType<typeof createDue>;

/** Tells of what other processes store. */
function createWatches({ deliveries, events, scheduler, logger }: DueDeps, onEvent: () => void) {
  return [
    createWatch<DeliveryDocument>({
      collection: durableCollection(deliveries),
      which: { 'fullDocument.state': 'pending', 'fullDocument.attempt': 1, 'fullDocument.lease': null },
      fields: ['webhookId', 'userId'],
      onStored: (webhook) => scheduler.look(webhook),
      logger,
    }),
    createWatch<EventDocument>({
      collection: durableCollection(events),
      which: { 'fullDocument.fanOut': 'pending', 'fullDocument.fanOutLeases': 0 },
      fields: ['_id'],
      onStored: onEvent,
      logger,
    }),
  ];
}

/**
 * Finds what is due. The delivery's `claimableAt` is the truth, by the database's clock, and the sweep is the clock: it finds retries before they
 * are due, and whatever is. An Agenda job has it look at once, and a change stream tells the scheduler of new deliveries; losing every job
 * loses nothing.
 */
export function createDue(deps: DueDeps) {
  const { scheduler, unfinished, jobs, sweepInterval, logger } = deps;
  const cursor = createSweepCursor();
  let startedAt = 0;

  /** Reads one page, so that a long backlog makes no sweep slower. */
  async function sweepPage(): Promise<void> {
    const { webhookIds, next, coming, events } = await deps.reads.look(cursor.begin(), pageSize, unfinished.page());
    scheduler.expect(coming);
    cursor.reached(next);
    for (const webhookId of webhookIds) scheduler.look({ webhookId });
    scheduler.resume();
    const hasMoreEvents = await unfinished.take(events);
    if (next || hasMoreEvents) sweep.runNow();
    if (!unfinished.hasRoom) whenRoom();
  }

  const sweep = createPeriodic({
    name: 'the sweep',
    task: sweepPage,
    interval: sweepInterval,
    ...(deps.onSwept && { onRun: deps.onSwept }),
    logger,
  });

  /** Sweeps as soon as there is room for events again. */
  function whenRoom(): void {
    void scheduler.whenWanted().then(() => (unfinished.hasRoom ? onEvent() : whenRoom()));
  }

  /** A stored event waits for its fan-out: the sweep looks for it now. */
  function onEvent(): void {
    if (scheduler.isWorking && unfinished.hasRoom) sweep.runNow();
  }

  const watches = deps.changeStreams ? createWatches(deps, onEvent) : [];

  return {
    onEvent,
    /** Whether this process works, and its sweep has succeeded within the last few intervals. */
    get isLive(): boolean {
      const silence = performance.now() - (sweep.succeededAt ?? startedAt);
      return scheduler.isWorking && silence < 3 * sweepInterval + longestSweep;
    },
    /** When its sweep last succeeded, by `performance.now()`. */
    get sweptAt(): number | undefined {
      return sweep.succeededAt;
    },
    async start() {
      startedAt = performance.now();
      sweep.start();
      for (const watch of watches) watch.start();
      await jobs.start(sweep.runNow);
    },
    async stop() {
      await Promise.all([jobs.stop(), sweep.stop(), ...watches.map((watch) => watch.close())]);
    },
  };
}

/** After this time without room, some events are taken anyway: otherwise publications here might keep all room. Milliseconds. */
const longestWithoutRoom = 1_000;
/** First attempts of the events that are taken then. They are stored, and workers share them among accounts when they claim them. */
const maxWithoutRoom = 1_000;
/** More first attempts than publications leave room for now and then. */
const enough = 50;
/** Events in one page. */
const eventsPageSize = 200;
/** Events whose failure is remembered, so that each is logged once. */
const rememberedLimit = 1_000;

export interface UnfinishedEventsDeps extends Pick<AttemptDeps, 'target' | 'logger'> {
  readonly outbox: Pick<Outbox, 'unfinished'>;
  readonly take: ClaimEvents;
  /** How long the taken events are held. Milliseconds. */
  readonly lease: number;
  readonly settleSubscribers: SettleSubscribers;
  readonly fanOut: Pick<FanOut, 'fanOut' | 'room'>;
  /** How many more first attempts this process wants. It takes at most that many events at a time, and at least one. */
  readonly scheduler: Pick<Scheduler, 'wantedFirsts'>;
}

type UnfinishedEvents = ReturnType<typeof createUnfinishedEvents>;

/** How many first attempts, and how many bytes, there is room for. */
type Room = Readonly<Record<'attempts' | 'bytes', number>>;

/** The first events that there is room for: one in any case, whatever its bytes. */
function fitting(unfinished: readonly UnfinishedEvent[], room: Room): EventKey[] {
  let { attempts, bytes } = room;
  const events: EventKey[] = [];
  for (const { _id, userId, targetCount, size } of unfinished) {
    attempts -= targetCount;
    bytes -= size;
    if ((attempts < 0 || bytes < 0) && events.length > 0) break;
    events.push({ _id, userId });
  }
  return events;
}

/** Logs the failures of events, each event once. */
class FailureLog {
  readonly #logger: UnfinishedEventsDeps['logger'];
  readonly #failed = new Set<string>();

  constructor(logger: UnfinishedEventsDeps['logger']) {
    this.#logger = logger;
  }

  failed(failures: readonly { readonly id: string; readonly reason: string }[]): void {
    if (this.#failed.size >= rememberedLimit) this.#failed.clear();
    const added = failures.filter(({ id }) => !this.#failed.has(id)).slice(0, rememberedLimit - this.#failed.size);
    const [first] = added;
    if (!first) return;
    for (const { id } of added) this.#failed.add(id);
    const message = 'events could not be fanned out to their webhooks; the sweep tries again';
    this.#logger.error(message, { count: added.length, event: first.id, reason: first.reason });
  }

  succeeded(id: string): void {
    this.#failed.delete(id);
  }
}

/**
 * Fans out the events that no process holds: from processes without workers, from transactions, and those whose process died. A
 * fan-out that fails holds up no other: its event comes again when its lease has lapsed.
 */
export function createUnfinishedEvents(deps: UnfinishedEventsDeps) {
  const { outbox, settleSubscribers, fanOut } = deps;
  const log = new FailureLog(deps.logger);
  /** First attempts, bytes and events of the page that `take` gets next. */
  let budget = { attempts: 0, bytes: 0, events: 0 };
  /** When enough of the next events, or all of them, were last taken, by `performance.now()`. */
  let tookAt = Number.NEGATIVE_INFINITY;

  /** The room for events, or what is taken without room. */
  function room(): Room {
    const attempts = deps.scheduler.wantedFirsts;
    const bytes = Math.max(fanOut.room, 0);
    if (attempts >= enough && bytes > 0) return { attempts, bytes };
    if (performance.now() - tookAt > longestWithoutRoom) return { attempts: maxWithoutRoom, bytes };
    return { attempts: bytes > 0 ? attempts : 0, bytes };
  }

  return {
    /** A part of a query that finds the next events; `null` while there is no room, except once a second. */
    page(): PartOfLook | null {
      const { attempts, bytes } = room();
      budget = { attempts, bytes, events: Math.min(eventsPageSize, attempts) };
      return attempts > 0 ? outbox.unfinished(budget.events) : null;
    },
    /**
     * Takes the events of that page that are still free, as far as there is room, and starts their fan-outs. Resolves with
     * whether there may be more.
     */
    async take(unfinished: readonly UnfinishedEvent[]): Promise<boolean> {
      if (budget.attempts === 0) return false;
      const events = fitting(unfinished, budget);
      const isMore = unfinished.length === budget.events || events.length < unfinished.length;
      // a few places that become free again and again must not postpone the rest again and again
      if (budget.attempts >= enough || !isMore) tookAt = performance.now();
      if (events.length === 0) return false;
      const held = await deps.take(events, deps.lease);
      const target = createShortReads(deps.target);
      const results = await Promise.allSettled(
        held.map(async ({ event, lease }) => {
          await fanOut.fanOut({ event: await settleSubscribers(event), lease }, target);
          log.succeeded(event._id);
        }),
      );
      log.failed(
        results.flatMap((result, i) =>
          result.status === 'rejected' ? [{ id: String(held[i]?.event._id), reason: String(result.reason) }] : [],
        ),
      );
      return isMore;
    },
    /** Whether an event would be taken now. */
    get hasRoom(): boolean {
      return room().attempts > 0;
    },
  };
}
