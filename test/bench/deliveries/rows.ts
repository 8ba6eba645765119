import { setTimeout as sleep } from 'node:timers/promises';
import { type Arrival, now, type Process, type Published, type Setup, type Target } from './setup.ts';
import type { Usage } from './usage.ts';

export const publishers = 16;

/** An account with so many webhooks at a sender. */
export async function subscribe(setup: Setup, sender: Process, userId: string, count: number): Promise<void> {
  await sender.call('subscribe', userId, setup.urls(userId, count), setup.secret);
}

/** What each of `count` things used. */
type Cost<Figures> = (count: number) => Promise<Figures>;

/** Measures from now until it is asked. */
export async function meter<Figures extends Readonly<Record<keyof Figures, number>>>(
  read: () => Promise<Figures>,
): Promise<Cost<Figures>> {
  const before = await read();
  return async (count) => {
    // what is still being recorded belongs to it
    await sleep(300);
    const after = Object.entries<number>(await read()).map(([name, value]) => [
      name,
      (value - before[name as keyof Figures]) / count,
    ]);
    return Object.fromEntries(after) as Figures;
  };
}

/** Deliveries a second from the first publish to the last arrival, and what each used. */
export async function rate(
  setup: Setup,
  usage: () => Promise<Usage>,
  target: Target,
  userId: string,
  events: number,
  webhooks: number,
) {
  const count = events * webhooks;
  const cost = await meter(usage);
  const flood = setup.load.call<Published[]>('flood', target, userId, events, publishers);
  const [published, arrivals] = await Promise.all([flood, setup.arrivals(count)]);
  const first = Math.min(...published.map(({ sent }) => sent));
  const last = Math.max(...arrivals.map(({ at }) => at));
  return { rate: (count * 1_000) / (last - first), ...(await cost(count)) };
}

/** Publishing alone, with nobody to deliver: events a second. Leaves that many deliveries waiting. */
export async function publishAlone(setup: Setup, target: Target, userId: string, events: number): Promise<number> {
  const published = await setup.load.call<Published[]>('flood', target, userId, events, publishers);
  const first = Math.min(...published.map(({ sent }) => sent));
  return (events * 1_000) / (Math.max(...published.map(({ accepted }) => accepted)) - first);
}

/** Seconds from starting the workers of a process to the last arrival of what waited. */
export async function drain(setup: Setup, worker: Process, waiting: number): Promise<number> {
  const started = now();
  await worker.call('start');
  const arrivals = await setup.arrivals(waiting);
  return (Math.max(...arrivals.map(({ at }) => at)) - started) / 1_000;
}

/** Milliseconds of each delivery since its event was sent or accepted. */
export function waits(
  published: readonly Published[],
  arrivals: readonly Arrival[],
  from: 'sent' | 'accepted',
): number[] {
  const began = new Map(published.map((one) => [one.id, one[from]]));
  return arrivals.map(({ id, at }) => at - (began.get(id) ?? Number.NaN));
}

/** From the request to its answer, and to the first byte at the receiver, of events at even distances. Milliseconds. */
export async function delays(setup: Setup, target: Target, userId: string, events: number, perSecond: number) {
  const published = await setup.load.call<Published[]>('steadily', target, userId, events, perSecond);
  const arrivals = await setup.arrivals(events);
  return {
    answer: published.map(({ sent, accepted }) => accepted - sent),
    arrival: waits(published, arrivals, 'sent'),
  };
}
