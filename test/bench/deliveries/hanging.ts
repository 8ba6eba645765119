import { percentile } from '../report.ts';
import { meter, subscribe, waits } from './rows.ts';
import type { Process, Published, Setup, Target } from './setup.ts';

/** The delays of nine receivers, and what each event cost. Milliseconds. */
export interface Nine {
  readonly p50: number;
  readonly p99: number;
  readonly CPU: number;
  readonly operations: number;
}

/**
 * Ten webhooks of one account get the same events again and again, in turn with the tenth answering and hanging. What it
 * kept waiting comes as soon as it answers again, and is awaited: it belongs to no turn.
 */
export async function nineOthers(
  setup: Setup,
  sender: Process,
  target: Target,
  userId: string,
  { turns, events, perSecond }: { turns: number; events: number; perSecond: number },
): Promise<{ answers: Nine; hangs: Nine }[]> {
  await subscribe(setup, sender, userId, 9);
  await sender.call('subscribe', userId, setup.urls(`hang/${userId}`, 1), setup.secret);

  async function turn(tenth: 'hangs' | 'answers', count: number): Promise<Nine> {
    const hangs = tenth === 'hangs';
    if (hangs) await setup.receiver.call('hang');
    const cost = await meter(() => setup.usage(sender));
    const published = await setup.load.call<Published[]>('steadily', target, userId, count, perSecond);
    const arrived = await setup.arrivals(count * (hangs ? 9 : 10));
    const { cpu, mongod, operations } = await cost(count);
    await setup.receiver.call('answer');
    if (hangs) await setup.arrivals(count);
    const nine = arrived.filter(({ path }) => !path.startsWith('/hang'));
    const all = waits(published, nine, 'sent');
    return { p50: percentile(all, 50), p99: percentile(all, 99), CPU: cpu + mongod, operations };
  }

  await turn('answers', events / 3);
  const found: { answers: Nine; hangs: Nine }[] = [];
  for (let i = 0; i < turns; i += 1) {
    // whatever changes with time counts for both alike
    if (i % 2 === 0) {
      const answers = await turn('answers', events);
      found.push({ answers, hangs: await turn('hangs', events) });
    } else {
      const hangs = await turn('hangs', events);
      found.push({ answers: await turn('answers', events), hangs });
    }
  }
  return found;
}
