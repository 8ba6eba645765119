import { setTimeout as sleep } from 'node:timers/promises';
import { percentile, report } from '../report.ts';
import { type Bed, now, openBed } from './bed.ts';

const quick = process.argv.includes('--quick');
const rounds = quick ? 1 : 3;
const publishers = 16;

async function publish(bed: Bed, userId: string): Promise<string> {
  const data = { user_id: userId, credits_remaining: 5, threshold: 10 };
  const { id } = await bed.gateway.publish({ type: 'credits.low', userId, data });
  return id;
}

/** Deliveries a second, from the first publish to the last arrival. */
async function rate(bed: Bed, userId: string, events: number, webhooks: number): Promise<number> {
  const started = now();
  let left = events;
  const publisher = async () => {
    while (left > 0) {
      left -= 1;
      await publish(bed, userId);
    }
  };
  const [arrivals] = await Promise.all([
    bed.arrivals(events * webhooks),
    ...Array.from({ length: publishers }, publisher),
  ]);
  const last = Math.max(...arrivals.map(({ at }) => at));
  return (events * webhooks * 1000) / (last - started);
}

/** Milliseconds from publish returning to the first byte at the receiver; negative where the delivery was faster. */
async function delays(bed: Bed, userId: string, events: number, perSecond: number): Promise<number[]> {
  const accepted = new Map<string, number>();
  for (let i = 0; i < events; i += 1) {
    const next = sleep(1000 / perSecond);
    accepted.set(await publish(bed, userId), now());
    await next;
  }
  const arrivals = await bed.arrivals(events);
  return arrivals.map(({ id, at }) => at - (accepted.get(id) ?? Number.NaN));
}

const bed = await openBed();
await bed.subscribe('usr_one', 1);
await bed.subscribe('usr_ten', 10);
await rate(bed, 'usr_one', 200, 1); // warm up

const one: number[] = [];
const ten: number[] = [];
const p50: number[] = [];
const p99: number[] = [];
for (let round = 0; round < rounds; round += 1) {
  one.push(await rate(bed, 'usr_one', 1_000, 1));
  ten.push(await rate(bed, 'usr_ten', 200, 10));
  const waits = await delays(bed, 'usr_one', quick ? 30 : 100, 10);
  p50.push(percentile(waits, 50));
  p99.push(percentile(waits, 99));
}
await bed.close();

report('Deliveries: one process, its database and the receiver on this machine; every delivery and signature checked', [
  { name: 'one webhook, 16 publishers', unit: 'deliveries/s', values: one },
  { name: 'each event to 10 webhooks', unit: 'deliveries/s', values: ten },
  { name: 'published to first byte at 10/s, p50', unit: 'ms', values: p50 },
  { name: 'published to first byte at 10/s, p99', unit: 'ms', values: p99 },
]);
