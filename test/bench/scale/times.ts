import { setTimeout as sleep } from 'node:timers/promises';
import type { DeliveryFigures } from '../../scale/measured.ts';
import { waits } from '../deliveries/rows.ts';
import type { Setup } from '../deliveries/setup.ts';
import { percentile } from '../report.ts';
import type { Load } from './gateways.ts';

/** How long the records of what has arrived are waited for. Milliseconds. */
const maxWait = 30_000;

/** Milliseconds from when an attempt was due to its start, by what the database keeps of it. */
async function latenessOf({ connection }: Setup, { published, arrivals }: Load): Promise<number[]> {
  const deliveries = connection.collection('gateway_deliveries');
  const delivered = { eventId: { $in: published.flat().map(({ id }) => id) }, state: 'delivered' };
  const until = performance.now() + maxWait;
  while ((await deliveries.countDocuments(delivered)) < arrivals.length) {
    if (performance.now() > until) throw new Error(`not all of ${arrivals.length} deliveries were recorded`);
    await sleep(100);
  }
  const late = { $subtract: [{ $first: '$attempts.startedAt' }, '$dueAt'] };
  const found = await deliveries.aggregate<{ late: number }>([{ $match: delivered }, { $project: { late } }]).toArray();
  return found.map((one) => one.late);
}

type Times = Pick<DeliveryFigures, 'latenessP50' | 'latenessP99' | 'firstByteP50' | 'firstByteP99'>;

/** How late the deliveries of a load were. Milliseconds. */
export async function timesOf(setup: Setup, load: Load): Promise<Times> {
  const late = await latenessOf(setup, load);
  const firstBytes = waits(load.published.flat(), load.arrivals, 'sent');
  return {
    latenessP50: percentile(late, 50),
    latenessP99: percentile(late, 99),
    firstByteP50: percentile(firstBytes, 50),
    firstByteP99: percentile(firstBytes, 99),
  };
}
