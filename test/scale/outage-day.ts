import { attemptsAllowed, delayAfter } from '../../src/deliveries/retry.ts';
import { defaultRetryDelays } from '../../src/options/webhooks.ts';
import { percentile } from '../bench/report.ts';
import { createRandom } from '../faults/random.ts';
import { markdownTable } from './markdown-table.ts';

/** A day on which some receivers are down for a time. */
interface OutageDay {
  readonly seed: number;
  /** Deliveries that are published in a second, on average. */
  readonly perSecond: number;
  /** Attempts that all workers together make in a second. */
  readonly capacity: number;
  /** One of so many deliveries goes to a receiver that is down. */
  readonly oneIn: number;
  /** When they go down and come back. Hours of the day. */
  readonly downAt: number;
  readonly downFor: number;
  /** Milliseconds. */
  readonly retryDelays: readonly number[];
}

export interface OutageResult {
  readonly published: number;
  readonly delivered: number;
  readonly failed: number;
  readonly mostAttempts: number;
  /** The most deliveries that waited for a retry or a worker at one time. */
  readonly peakPending: number;
  readonly attemptsPerPublished: number;
  /** The most attempts in a second. */
  readonly peakRate: number;
  /** From due to started, of all attempts. Seconds. */
  readonly lateness: { readonly p50: number; readonly p99: number; readonly max: number };
  /** From the return of the receivers until the last delivery that was published before has ended. Seconds. */
  readonly recovery: number;
}

const hour = 3_600;
const day = 24 * hour;

interface Pending {
  readonly publishedAt: number;
  readonly isToDown: boolean;
  attempt: number;
  dueAt: number;
}

/** Simulates the day by seconds, and then on until nothing waits. The same seed gives the same result. */
function simulateOutage(given: OutageDay): OutageResult {
  const { perSecond, capacity, oneIn, retryDelays } = given;
  const random = createRandom(given.seed);
  const [downAt, upAt] = [given.downAt * hour, (given.downAt + given.downFor) * hour];
  const allowed = attemptsAllowed(retryDelays, false);
  const due = new Map<number, Pending[]>();
  let ready: Pending[] = [];
  const late: number[] = [];
  const counts = { published: 0, delivered: 0, failed: 0, attempts: 0, mostAttempts: 0 };
  let [pending, peakPending, peakRate, lastOfOutage] = [0, 0, 0, upAt];

  function publish(now: number): void {
    // between nothing and twice the average
    const count = random.below(2 * perSecond + 1);
    for (let i = 0; i < count; i += 1) {
      ready.push({ publishedAt: now, isToDown: random.below(oneIn) === 0, attempt: 1, dueAt: now });
    }
    counts.published += count;
    pending += count;
  }

  function end(delivery: Pending, now: number, outcome: 'delivered' | 'failed'): void {
    counts[outcome] += 1;
    pending -= 1;
    if (delivery.isToDown && delivery.publishedAt < upAt) lastOfOutage = Math.max(lastOfOutage, now);
  }

  function attempt(delivery: Pending, now: number): void {
    late.push(now - delivery.dueAt);
    counts.attempts += 1;
    counts.mostAttempts = Math.max(counts.mostAttempts, delivery.attempt);
    const fails = delivery.isToDown && now >= downAt && now < upAt;
    if (!fails || delivery.attempt === allowed) {
      end(delivery, now, fails ? 'failed' : 'delivered');
      return;
    }
    delivery.dueAt = now + Math.max(1, Math.round(delayAfter(delivery.attempt, retryDelays) / 1_000));
    delivery.attempt += 1;
    due.set(delivery.dueAt, [...(due.get(delivery.dueAt) ?? []), delivery]);
  }

  for (let now = 0; now < day || pending > 0; now += 1) {
    ready = ready.concat(due.get(now) ?? []);
    due.delete(now);
    if (now < day) publish(now);
    const batch = ready.splice(0, capacity);
    for (const delivery of batch) attempt(delivery, now);
    peakRate = Math.max(peakRate, batch.length);
    peakPending = Math.max(peakPending, pending);
  }

  const { published, delivered, failed, attempts, mostAttempts } = counts;
  return {
    published,
    delivered,
    failed,
    mostAttempts,
    peakPending,
    attemptsPerPublished: attempts / published,
    peakRate,
    lateness: {
      p50: percentile(late, 50),
      p99: percentile(late, 99),
      max: late.reduce((most, one) => Math.max(most, one), 0),
    },
    recovery: lastOfOutage - upAt,
  };
}

const perSecond = 2;

/** The days that docs/scale.md shows, by how many hours the receivers are down. */
export function outageOf(downFor: number, seed = 1): OutageResult {
  const retryDelays = defaultRetryDelays;
  return simulateOutage({ seed, perSecond, capacity: 2 * perSecond, oneIn: 10, downAt: 1, downFor, retryDelays });
}

const duration = (seconds: number) => (seconds < 60 ? `${seconds} s` : `${(seconds / hour).toFixed(1)} h`);
const percent = (part: number, whole: number) => `${((part * 100) / whole).toFixed(1)} %`;

/** What docs/scale.md says about such days. */
export function outageSection(): string {
  const header = [
    'a tenth of the receivers is down for',
    'pending at most, of a day',
    'attempts a delivery',
    'attempts late, p99 and most',
    'failed for good',
    'last one ended after their return',
  ];
  const rows = [1, 6, 12, 22].map((hours) => {
    const { published, peakPending, attemptsPerPublished, lateness, failed, recovery } = outageOf(hours);
    return [
      `${hours} h`,
      percent(peakPending, published),
      attemptsPerPublished.toFixed(2),
      `${duration(lateness.p99)}, ${duration(lateness.max)}`,
      percent(failed, published),
      duration(recovery),
    ];
  });
  return markdownTable(header, rows);
}
