import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { now, serve } from './rpc.mjs';

/** Publishes over HTTP, from a process of its own. */
let pool;

/** @returns the event's id, and when it was sent and accepted */
async function publish({ port, key }, userId) {
  pool ??= new Pool(`http://127.0.0.1:${port}`, { connections: 64 });
  const data = { user_id: userId, credits_remaining: 5, threshold: 10 };
  const sent = now();
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: '/v1/events',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'credits.low', user_id: userId, data }),
  });
  const text = await body.text();
  const accepted = now();
  if (statusCode !== 201) throw new Error(`publishing was answered ${statusCode}: ${text}`);
  return { id: JSON.parse(text).id, sent, accepted };
}

serve({
  /** So many publishers, each going on as soon as it was answered. */
  async flood(target, userId, events, publishers) {
    const published = [];
    let left = events;
    async function publisher() {
      while (left > 0) {
        left -= 1;
        published.push(await publish(target, userId));
      }
    }
    await Promise.all(Array.from({ length: publishers }, publisher));
    return published;
  },
  /** Evenly, whatever the answers take. */
  async steadily(target, userId, events, perSecond) {
    const started = now();
    const all = [];
    for (let i = 0; i < events; i += 1) {
      all.push(publish(target, userId));
      await sleep(started + ((i + 1) * 1_000) / perSecond - now());
    }
    return Promise.all(all);
  },
  async retarget() {
    await pool?.close();
    pool = undefined;
  },
});
process.send?.('ready');
