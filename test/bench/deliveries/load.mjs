import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { now, serve } from './rpc.mjs';

/** Publishes over HTTP, from a process of its own. One pool for each gateway, by its port. */
const pools = new Map();

function poolOf(port) {
  const pool = pools.get(port) ?? new Pool(`http://127.0.0.1:${port}`, { connections: 64 });
  pools.set(port, pool);
  return pool;
}

/**
 * As a careful client does: what is answered 503 is published again, with the same key.
 * @returns the event's id, and when it was first sent and accepted
 */
async function publish({ port, key }, userId) {
  const data = { user_id: userId, credits_remaining: 5, threshold: 10 };
  const request = {
    method: 'POST',
    path: '/v1/events',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'idempotency-key': randomUUID(),
    },
    body: JSON.stringify({ type: 'credits.low', user_id: userId, data }),
  };
  const sent = now();
  for (let tries = 1; ; tries += 1) {
    const { statusCode, body } = await poolOf(port).request(request);
    const text = await body.text();
    if (statusCode === 201) return { id: JSON.parse(text).id, sent, accepted: now() };
    if (statusCode !== 503 || tries === 10) throw new Error(`publishing was answered ${statusCode}: ${text}`);
    await sleep(100);
  }
}

/** So many publishers, each going on as soon as it was answered, while `goesOn`. */
async function publishWhile(goesOn, target, userId, publishers) {
  const published = [];
  async function publisher() {
    while (goesOn()) published.push(await publish(target, userId));
  }
  await Promise.all(Array.from({ length: publishers }, publisher));
  return published;
}

serve({
  /** So many events. */
  flood(target, userId, events, publishers) {
    let left = events;
    return publishWhile(() => left-- > 0, target, userId, publishers);
  },
  /** For so many milliseconds. */
  floodFor(target, userId, duration, publishers) {
    const until = now() + duration;
    return publishWhile(() => now() < until, target, userId, publishers);
  },
  /** Evenly, whatever the answers take. */
  async steadily(target, userId, events, perSecond) {
    const started = now();
    const all = [];
    for (let i = 0; i < events; i += 1) {
      all.push(publish(target, userId));
      await sleep(Math.max(0, started + ((i + 1) * 1_000) / perSecond - now()));
    }
    return Promise.all(all);
  },
  async retarget() {
    for (const pool of pools.values()) await pool.close();
    pools.clear();
  },
});
process.send?.('ready');
