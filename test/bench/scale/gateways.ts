import { setTimeout as sleep } from 'node:timers/promises';
import type { Arrival, Process, Published, Setup, Target } from '../deliveries/setup.ts';

/** One gateway process: publishers reach it over HTTP, and it delivers. */
interface Gateway {
  readonly sender: Process;
  readonly target: Target;
}

/** What was published to each gateway, and what has arrived of it: each delivery once, with the right signature. */
export interface Load {
  readonly published: readonly (readonly Published[])[];
  readonly arrivals: readonly Arrival[];
  /** From the first request to the last arrival. */
  readonly seconds: number;
}

/** At each gateway; each publishes again as soon as it was answered. */
const publishersEach = 16;

/** Gateway processes that share a database, each with its own publishers and accounts. */
export interface Gateways {
  readonly all: readonly Gateway[];
  /** As much as they take, for so many seconds. */
  saturate(webhooks: number, seconds: number): Promise<Load>;
  /** So many deliveries a second, for so many seconds; the same accounts each time. */
  createSteadyLoad(webhooks: number, perSecond: number): Promise<(seconds: number) => Promise<Load>>;
  close(): Promise<void>;
}

let users = 0;
function newUser(): string {
  users += 1;
  return `usr_${users}`;
}

export async function startGateways(setup: Setup, count: number, options: object = {}): Promise<Gateways> {
  const senders = await Promise.all(Array.from({ length: count }, () => setup.sender(options)));
  const all: Gateway[] = [];
  for (const sender of senders) {
    all.push({ sender, target: await sender.call<Target>('open', newUser()) });
    await sender.call('start');
  }

  /** An account at each gateway. */
  async function subscribeEach(webhooks: number): Promise<string[]> {
    const userIds: string[] = [];
    for (const { sender } of all) {
      const userId = newUser();
      await sender.call('subscribe', userId, setup.urls(userId, webhooks), setup.secret);
      userIds.push(userId);
    }
    return userIds;
  }

  async function loadOf(
    userIds: readonly string[],
    webhooks: number,
    publish: (target: Target, userId: string, i: number) => Promise<Published[]>,
  ): Promise<Load> {
    const published = await Promise.all(all.map(({ target }, i) => publish(target, userIds[i] ?? '', i)));
    const events = published.flat();
    const arrivals = await setup.arrivals(events.length * webhooks);
    const first = events.reduce((least, { sent }) => Math.min(least, sent), Number.POSITIVE_INFINITY);
    const last = arrivals.reduce((most, { at }) => Math.max(most, at), 0);
    return { published, arrivals, seconds: (last - first) / 1_000 };
  }

  return {
    all,
    async saturate(webhooks, seconds) {
      return loadOf(await subscribeEach(webhooks), webhooks, (target, userId) =>
        setup.load.call<Published[]>('floodFor', target, userId, seconds * 1_000, publishersEach),
      );
    },
    async createSteadyLoad(webhooks, perSecond) {
      const userIds = await subscribeEach(webhooks);
      const eventsEach = perSecond / webhooks / count;
      return (seconds) =>
        loadOf(userIds, webhooks, async (target, userId, i) => {
          // the gateways in turn, not all in the same moment
          await sleep((i * 1_000) / eventsEach / count);
          return setup.load.call<Published[]>('steadily', target, userId, Math.ceil(eventsEach * seconds), eventsEach);
        });
    },
    async close() {
      for (const { sender } of all) await setup.closed(sender);
      await setup.load.call('retarget');
    },
  };
}
