import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createWebhookModel } from '../../../src/webhooks/model.ts';
import { createSealer, createSecrets } from '../../../src/webhooks/secrets.ts';
import { newId } from '../../support/ids.ts';
import { subscribe } from './rows.ts';
import { now, type Process, type Setup } from './setup.ts';

/** The most that a fan-out ten times as wide may add to the memory of the sender. MB. */
const flat = 64;
/** The most that an event with 10,000 targets may take of the 16 MB that a document can have. Bytes. */
const farBelow = 2_000_000;

/** An account with very many webhooks, stored as the gateway stores them: creating one reads its account's others. */
export async function subscribeMany(setup: Setup, userId: string, count: number): Promise<void> {
  const webhooks = createWebhookModel(setup.connection, 'gateway_');
  const secrets = createSecrets(webhooks, createSealer([setup.secretKey]));
  const documents = setup.urls(userId, count).map((url, slot) => {
    const _id = newId('wh', Date.now());
    const sealed = { secret: secrets.seal(_id, 'secret', setup.secret), sealedWith: [secrets.newestKeyId] };
    return { _id, userId, slot, url, events: ['credits.low'], active: true, ...sealed, createdAt: new Date() };
  });
  await webhooks.collection.insertMany(documents as never[]);
}

/** Looks at the memory of a process from now on; resolves with by how much it had grown at the most. MB. */
async function watchMemory({ child }: Process): Promise<() => Promise<number>> {
  const resident = async () => {
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1_024;
  };
  const before = await resident();
  let most = before;
  let ended = false;
  const watching = (async () => {
    while (!ended) {
      most = Math.max(most, await resident());
      await sleep(20);
    }
  })();
  return async () => {
    ended = true;
    await watching;
    return most - before;
  };
}

/** One event from a fresh process: seconds, by how much its memory grew at the peak (MB), and the event's size (kB). */
async function publishOne(setup: Setup, userId: string, webhooks: number, warm: string) {
  const sender = await setup.sender();
  await sender.call('start');
  const publish = async (to: string) => {
    const data = { user_id: to, credits_remaining: 5, threshold: 10 };
    const { id } = await sender.call<{ id: string }>('publish', { type: 'credits.low', userId: to, data });
    return id;
  };
  await subscribe(setup, sender, warm, 10);
  for (let i = 0; i < 50; i += 1) await publish(warm);
  await setup.arrivals(500);
  await sleep(200);
  const memory = await watchMemory(sender);
  const started = now();
  const id = await publish(userId);
  const published = now();
  const arrivals = await setup.arrivals(webhooks);
  const grown = await memory();
  await setup.closed(sender);
  const events = setup.connection.collection<{ _id: string }>('gateway_events');
  const [found] = await events
    .aggregate([{ $match: { _id: id } }, { $project: { size: { $bsonSize: '$$ROOT' } } }])
    .toArray();
  if (!found || found.size > farBelow) throw new Error(`an event to ${webhooks} webhooks has ${found?.size} bytes`);
  return {
    publish: (published - started) / 1_000,
    deliver: (Math.max(...arrivals.map(({ at }) => at)) - started) / 1_000,
    memory: grown,
    document: found.size / 1_000,
  };
}

/**
 * @param newUser an account of its own for each warm-up
 * @throws when ten times as many webhooks take much more memory
 */
export async function wideFanOut(setup: Setup, thousand: string, tenThousand: string, newUser: () => string) {
  const narrow = await publishOne(setup, thousand, 1_000, newUser());
  const wide = await publishOne(setup, tenThousand, 10_000, newUser());
  const more = wide.memory - narrow.memory;
  if (!(more <= flat)) throw new Error(`10,000 webhooks took ${more} MB more than 1,000`);
  return { narrow, wide };
}
