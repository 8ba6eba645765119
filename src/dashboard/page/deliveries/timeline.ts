import type { Attempt, DeliveryDetails } from '../api/types.ts';

/** One line of a delivery's timeline. */
export type Moment =
  | { readonly kind: 'made'; readonly attempt: Attempt }
  | { readonly kind: 'sending' }
  | { readonly kind: 'next'; readonly number: number; readonly at: string; readonly last: boolean }
  | { readonly kind: 'later'; readonly number: number; readonly at: string; readonly last: boolean }
  | { readonly kind: 'spared'; readonly from: number; readonly to: number };

/**
 * What was, what is next and what comes after, should that fail too.
 * @param now in milliseconds: what is due by then and in flight is under way
 */
export function timelineOf(delivery: DeliveryDetails, now: number): Moment[] {
  const { attempts, in_flight, state, attempts_made, max_attempts } = delivery;
  const schedule = delivery.schedule.filter(({ due_at }) => !(in_flight && Date.parse(due_at) <= now));
  const inOrder = [...attempts].sort((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at));
  const moments: Moment[] = inOrder.map((attempt) => ({ kind: 'made', attempt }));
  if (in_flight) moments.push({ kind: 'sending' });
  schedule.forEach(({ number, due_at }, i) => {
    const kind = i === 0 && !in_flight ? 'next' : 'later';
    moments.push({ kind, number, at: due_at, last: number === max_attempts });
  });
  if (state !== 'pending' && !in_flight && attempts_made < max_attempts) {
    moments.push({ kind: 'spared', from: attempts_made + 1, to: max_attempts });
  }
  return moments;
}
