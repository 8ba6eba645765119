import { setTimeout as sleep } from 'node:timers/promises';
import type { Workers } from './workers/workers.ts';

/** A publication that was refused, or not answered, and never tried again. */
export interface Abandoned {
  readonly idempotencyKey: string;
  /** The error's code. */
  readonly error: string;
}

/** Errors after which a publisher publishes again, with the same key. */
const passing = ['database_unavailable', 'publish_unconfirmed', 'shutting_down', 'the worker died'];

/** A publisher that goes on whatever breaks, and publishes again with the same key until it is told yes; now and then it gives up instead. */
export function startLoad(workers: Workers, eventsPerSecond: number) {
  /** When the event of each id was accepted. Milliseconds since 1970. */
  const accepted = new Map<string, number>();
  const abandoned: Abandoned[] = [];
  const notes: string[] = [];
  const under = new Set<Promise<void>>();
  let longestAnswer = 0;
  let going = true;
  let isPaused = false;
  let published = 0;

  async function publish(idempotencyKey: string, data: Record<string, unknown>) {
    const reply = await workers.publish({ idempotencyKey, data });
    if (reply.error !== 'the worker died') longestAnswer = Math.max(longestAnswer, reply.took);
    if (reply.error !== undefined && !passing.includes(reply.error)) notes.push(`publish failed: ${reply.error}`);
    return reply;
  }

  async function publishUntilAccepted(n: number): Promise<void> {
    const idempotencyKey = `key-${process.pid}-${Date.now()}-${n}`;
    const data = { payment_id: `pay_${n}`, amount: n, currency: 'usd', credits_added: n, user_id: 'usr_1' };
    let eventId: string | undefined;
    for (;;) {
      const reply = await publish(idempotencyKey, data);
      eventId = reply.eventId;
      if (eventId !== undefined) break;
      const error = reply.error ?? '';
      if (!passing.includes(error)) return;
      if (n % 4 === 0) {
        abandoned.push({ idempotencyKey, error });
        return;
      }
      await sleep(100);
    }
    accepted.set(eventId, Date.now());
    // a publisher that did not hear the answer would do this
    if (n % 10 !== 0) return;
    const second = (await publish(idempotencyKey, data)).eventId;
    if (second !== undefined && second !== eventId) notes.push(`one key made ${eventId} and ${second}`);
  }

  async function run(): Promise<void> {
    while (going) {
      if (!isPaused) {
        published += 1;
        const publishing = publishUntilAccepted(published).finally(() => under.delete(publishing));
        under.add(publishing);
      }
      await sleep(1_000 / eventsPerSecond);
    }
  }

  /** Resolves when everything that was begun has been accepted, or given up. */
  async function pause(): Promise<void> {
    isPaused = true;
    while (under.size > 0) await Promise.all(under);
  }

  const running = run();
  return {
    notes,
    accepted,
    abandoned,
    /** The longest time that a publication took to be answered, yes or no. Milliseconds. */
    longestAnswer: () => longestAnswer,
    pause,
    resume() {
      isPaused = false;
    },
    /** Resolves as `pause` does. */
    async stop() {
      going = false;
      await running;
      await pause();
    },
  };
}
