import { setTimeout as sleep } from 'node:timers/promises';
import { storeEnded } from '../../deliveries/redeliver/recoveries/missed.ts';
import { percentile } from '../report.ts';
import { subscribe, waits } from './rows.ts';
import type { Process, Published, Setup, Target } from './setup.ts';

/** The account that the benchmark's key is of. */
const crowding = 'usr_bench';
const webhooks = 50;
const eventsOfCrowd = 12;
const recoveries = 4;
const recoveredEach = 40;

/** Milliseconds. */
export interface Delays {
  readonly p50: number;
  readonly p99: number;
}

/** Asks for a recovery, or how it does, as the account that crowds. */
async function ask({ port, key }: Target, path: string, body?: object): Promise<{ id: string; state: string }> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/webhooks/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${path} was answered ${response.status}: ${await response.text()}`);
  return (await response.json()) as { id: string; state: string };
}

/**
 * One account gets events at a steady rate, in turn undisturbed and while another account has 50 webhooks that hang, with
 * more due than there are places, and recovers four of them. What hung comes in between, and is awaited.
 */
export async function besideCrowd(
  setup: Setup,
  sender: Process,
  target: Target,
  userId: string,
  { pairs, events, perSecond }: { pairs: number; events: number; perSecond: number },
): Promise<{ alone: Delays; crowded: Delays }[]> {
  await subscribe(setup, sender, userId, 1);
  const collection = setup.connection.collection<{ _id: string }>('gateway_webhooks');
  const isSubscribed = (await collection.countDocuments({ userId: crowding })) > 0;
  if (!isSubscribed) await sender.call('subscribe', crowding, setup.urls('hang/crowd', webhooks), setup.secret);
  const stored = collection.find({ userId: crowding });
  const recovered = (await stored.limit(recoveries).toArray()).map(({ _id }) => _id);

  async function delays(others: number, between = async () => {}): Promise<Delays> {
    const published = await setup.load.call<Published[]>('steadily', target, userId, events, perSecond);
    await between();
    const arrived = (await setup.arrivals(events + others)).filter(({ path }) => !path.startsWith('/hang'));
    const all = waits(published, arrived, 'sent');
    return { p50: percentile(all, 50), p99: percentile(all, 99) };
  }

  async function crowded(): Promise<Delays> {
    for (const webhookId of recovered) {
      await storeEnded(setup.connection, webhookId, Array(recoveredEach).fill('failed'), crowding);
    }
    await setup.receiver.call('hang');
    await setup.load.call('flood', target, crowding, eventsOfCrowd, 4);
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const begun = await Promise.all(recovered.map((id) => ask(target, `${id}/recover`, { since })));
    await sleep(500);
    return delays(eventsOfCrowd * webhooks + recoveries * recoveredEach, async () => {
      await setup.receiver.call('answer');
      for (const [i, { id }] of begun.entries()) {
        while ((await ask(target, `${recovered[i]}/recoveries/${id}`)).state === 'running') await sleep(50);
      }
    });
  }

  await delays(0);
  const found: { alone: Delays; crowded: Delays }[] = [];
  for (let i = 0; i < pairs; i += 1) {
    // whatever changes with time counts for both alike
    if (i % 2 === 0) {
      const alone = await delays(0);
      found.push({ alone, crowded: await crowded() });
    } else {
      const beside = await crowded();
      found.push({ alone: await delays(0), crowded: beside });
    }
  }
  return found;
}
