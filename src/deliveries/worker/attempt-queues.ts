import type { Logger } from '../../options/options.ts';
import type { AttemptRef } from '../attempt/attempt-ref.ts';
import type { Prepare } from '../attempt/ready-attempt.ts';
import { Dispatcher } from '../dispatcher/dispatcher.ts';
import { createRoomQueue, type RoomQueue } from '../fan-out/room-queue.ts';
import type { ClaimableAttempts } from './claimable-attempts.ts';
import { createWebhookBacklog, type WebhookBacklog } from './webhook-backlog.ts';

/** How long a claimed attempt waits for a place, and a first attempt for room before that: together far less than a lease. Milliseconds. */
const maxWait = 1_000;
/** First attempts that wait for room, in multiples of attempts under way. */
const waitingLimit = 5;

export interface AttemptQueuesDeps {
  readonly concurrency: number;
  readonly concurrencyPerAccount: number;
  readonly concurrencyPerWebhook: number;
  readonly due: Pick<ClaimableAttempts, 'ofWebhooks'>;
  /** Claims an attempt that is due. */
  readonly prepare: Prepare;
  /** Called when a stored attempt was claimed. */
  readonly onClaimed: (ref: AttemptRef) => void;
  /** Called when there may be room for another attempt of any account. */
  readonly onRoomInAll: () => void;
  /** Whether this process makes attempts. */
  readonly isWorking: () => boolean;
  readonly logger: Logger;
}

/** The attempts that this process makes, or will make as soon as there is room. */
export interface AttemptQueues {
  /** Those that are claimed. */
  readonly dispatcher: Dispatcher;
  /** First attempts that wait for room; they are not stored yet. */
  readonly waiting: RoomQueue;
  /** Those that are stored and due. */
  readonly backlog: WebhookBacklog;
}

/** Joins the queues: whenever the dispatcher has room, it takes from the others. */
export function createAttemptQueues(deps: AttemptQueuesDeps): AttemptQueues {
  async function claim(ref: AttemptRef): Promise<boolean> {
    const isClaimed = (await dispatcher.offer(ref, deps.prepare)) ?? false;
    if (isClaimed) deps.onClaimed(ref);
    return isClaimed;
  }

  const dispatcher = new Dispatcher({
    concurrency: deps.concurrency,
    perAccount: deps.concurrencyPerAccount,
    perWebhook: deps.concurrencyPerWebhook,
    maxWait,
    onRoom(webhook) {
      waiting.draw(webhook.webhookId);
      backlog.draw(webhook);
    },
    onResume: ({ webhookId, userId }) => backlog.add(webhookId, userId),
    onRoomInAll() {
      backlog.drawOthers();
      deps.onRoomInAll();
    },
  });
  const waiting = createRoomQueue({
    limit: deps.concurrency * waitingLimit,
    maxWait,
    mayWait(webhook) {
      // a rate limit may hold it back for long, and stored deliveries come first
      if (!deps.isWorking() || dispatcher.isLimited(webhook)) return false;
      return dispatcher.holds(webhook) && !backlog.includes(webhook.webhookId);
    },
  });
  const backlog = createWebhookBacklog({
    due: deps.due,
    wanted: (webhook) => dispatcher.wanted(webhook),
    wantedOf: (userId) => dispatcher.wantedOf(userId),
    wantedInAll: () => dispatcher.wantedInAll(),
    claim,
    onError(error) {
      deps.logger.warn('due attempts were not claimed; the next sweep tries again', { reason: String(error) });
    },
  });
  return { dispatcher, waiting, backlog };
}
