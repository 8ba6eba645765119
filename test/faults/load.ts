import { setTimeout as sleep } from 'node:timers/promises';
import type { Crew } from './crew.ts';

/** A publisher that goes on whatever breaks, and publishes again with the same key until it is told yes. */
export function startLoad(crew: Crew, eventsPerSecond: number) {
  const accepted: string[] = [];
  const notes: string[] = [];
  const under = new Set<Promise<void>>();
  let going = true;
  let published = 0;

  async function publishUntilAccepted(n: number): Promise<void> {
    const idempotencyKey = `key-${process.pid}-${Date.now()}-${n}`;
    const data = { payment_id: `pay_${n}`, amount: n, currency: 'usd', credits_added: n, user_id: 'usr_1' };
    for (;;) {
      const { eventId, error } = await crew.publish({ idempotencyKey, data });
      if (eventId !== undefined) {
        accepted.push(eventId);
        break;
      }
      if (error === 'idempotency_conflict' || error === 'invalid_event_data') {
        notes.push(`publish was refused: ${error}`);
        break;
      }
      await sleep(100);
    }
    // a publisher that did not hear the answer would do this
    if (n % 10 !== 0) return;
    const first = accepted.at(-1);
    const { eventId } = await crew.publish({ idempotencyKey, data });
    if (eventId !== undefined && !accepted.includes(eventId)) notes.push(`one key made ${first} and ${eventId}`);
  }

  async function run(): Promise<void> {
    while (going) {
      published += 1;
      const publishing = publishUntilAccepted(published).finally(() => under.delete(publishing));
      under.add(publishing);
      await sleep(1_000 / eventsPerSecond);
    }
  }

  const running = run();
  return {
    notes,
    accepted,
    /** Resolves when everything that was begun has been accepted. */
    async stop() {
      going = false;
      await running;
      while (under.size > 0) await Promise.all(under);
    },
  };
}
