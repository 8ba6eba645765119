import { GatewayError } from '../../errors.ts';
import { newId } from '../../ids.ts';
import { createWakeUps } from '../../mongo/agenda.ts';
import { createPeriodic } from '../../mongo/periodic.ts';
import type { Logger } from '../../options/options.ts';
import type { BackgroundResponses } from '../../proxy/ownership/background-responses.ts';
import type { StoredObjectModel } from '../model.ts';
import { createBackgroundStore } from './background-store.ts';
import { HeldAdmissions } from './held-admissions.ts';
import { responseJobIndexes } from './indexes.ts';
import { PollQueue } from './poll-queue.ts';
import { createPoller, type PollerDeps, type PollJob } from './poller.ts';

export interface BackgroundServiceDeps extends Omit<PollerDeps, 'store' | 'held' | 'schedule'> {
  readonly objects: StoredObjectModel;
  readonly collectionPrefix: string;
  /** How often this process looks for responses that no job polls. Milliseconds. @default 15_000 */
  readonly sweepInterval?: number;
  readonly logger: Logger;
}

export interface BackgroundService extends BackgroundResponses {
  /** Await it before anything else. */
  init(): Promise<void>;
  /** Polls upstreams in this process from now on. */
  start(): Promise<void>;
  /** Polls no more. What has not ended is left to other processes. */
  close(): Promise<void>;
}

/** Milliseconds. */
const usualSweepInterval = 15_000;

/** Responses of one account that one process follows: those of other accounts must be asked for in time. */
const mostOfAccount = 200;

const ignore = () => {};

/** Polls responses that are made in the background until each is counted. */
export function createBackgroundService(deps: BackgroundServiceDeps): BackgroundService {
  const { interval, sweepInterval = usualSweepInterval, logger } = deps;
  const store = createBackgroundStore(deps.objects);
  const held = new HeldAdmissions();
  const queue = new PollQueue((id) =>
    // its claim lapses, and a sweep finds it
    poller
      .pollNext(id)
      .catch((error: unknown) =>
        logger.warn('a response that is made in the background is asked for later', { id, reason: String(error) }),
      ),
  );
  // losing all jobs loses nothing: a sweep reads the responses themselves
  const jobs = createWakeUps<PollJob>({
    name: 'background response',
    connection: deps.objects.db,
    owner: newId('wrk', Date.now()),
    collection: responseJobIndexes(deps.collectionPrefix).collection,
    key: ['responseId', 'polls'],
    limit: 100,
    notStored: 'a job was not stored; a sweep will find its response',
    logger,
  });

  const poller = createPoller({ ...deps, store, held, schedule: jobs.schedule });

  const sweeping = createPeriodic({
    name: 'the sweep for responses that are made in the background',
    async task() {
      for (const response of await store.overdue()) queue.add(response);
    },
    interval: sweepInterval,
    logger,
  });

  /** Releases what is reserved for responses that other processes have counted. */
  const releasing = createPeriodic({
    name: 'releasing what is reserved for responses that are counted',
    async task() {
      const ids = held.ids();
      const uncounted = ids.length > 0 ? await store.uncounted(ids) : new Set();
      for (const id of ids) if (!uncounted.has(id)) held.release(id);
    },
    interval: sweepInterval,
    logger,
  });

  return {
    requireRoom(userId) {
      const count = held.countOf(userId);
      if (count < mostOfAccount) return;
      const message = `This account already has ${count} background responses, its maximum; send the request again when one has ended`;
      throw new GatewayError('rate_limit_exceeded', message, { headers: { 'retry-after': '10' } });
    },
    started({ id, userId }, admissions, tokensStreamed) {
      held.add(id, { userId, admissions, tokensStreamed });
      releasing.start();
      queue.track(jobs.schedule({ responseId: id, userId, polls: 0 }, interval));
    },
    ended({ id }, record) {
      const counted = poller
        .count(id, record)
        .catch((error: unknown) =>
          logger.warn('the usage of a response is counted later', { id, reason: String(error) }),
        );
      queue.track(counted);
      return counted;
    },
    pollSoon(response) {
      // whatever comes of it, the response is polled again when it is due
      queue.track(poller.poll(response).then(ignore, ignore));
    },
    settle: poller.settle,
    init: jobs.init,
    async start() {
      await jobs.start(({ responseId: id, userId }) => queue.add({ id, userId }));
      sweeping.start();
    },
    async close() {
      queue.close();
      await Promise.all([sweeping.stop(), releasing.stop(), jobs.stop()]);
      await queue.done();
      held.releaseAll();
    },
  };
}
