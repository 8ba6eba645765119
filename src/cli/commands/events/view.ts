import type { Schemas } from '../../client/api.ts';
import type { Style } from '../../terminal/paint.ts';
import type { Cell } from '../../terminal/table.ts';

type Event = Schemas['PastEvent'];

/** Every state an event can be in, and how it looks. */
const styles: Readonly<Record<Schemas['EventState'], Style>> = {
  pending: 'yellow',
  delivered: 'green',
  failed: 'red',
  canceled: 'dim',
  none: 'dim',
};

export const eventStates = Object.keys(styles);

export function eventStateCell({ state, skipped }: Event): Cell {
  return { text: skipped > 0 ? `${state}, ${skipped} skipped` : state, style: styles[state] };
}

/** How many of its deliveries are in which state: `2 delivered, 1 failed`. */
export function countsOf({ deliveries, skipped }: Event): string {
  const counts = Object.entries({ ...deliveries, skipped }).filter(([, count]) => count > 0);
  return counts.map(([state, count]) => `${count} ${state}`).join(', ') || 'none: no webhook hears of it';
}
