import type { EventState, PastEvent } from '../api/types.ts';
import type { StateShape } from '../elements/icons.tsx';

const states: Readonly<Record<EventState, { shape: StateShape; words: string }>> = {
  delivered: { shape: 'good', words: 'Delivered' },
  failed: { shape: 'bad', words: 'Failed' },
  pending: { shape: 'waiting', words: 'Pending' },
  canceled: { shape: 'stopped', words: 'Canceled' },
  none: { shape: 'idle', words: 'No receiver' },
};

/** A type's description without the word that all of them begin with; the catalogue says it once. */
export function withoutStage(description: string): string {
  return description.replace(/^Beta\. /, '').replaceAll('`', '');
}

/** How an event stands as a whole. */
export function statusOf({ state }: PastEvent): { shape: StateShape; words: string } {
  return states[state];
}

/** `2 delivered, 1 failed` */
export function countsOf({ deliveries, skipped }: PastEvent): string {
  const parts = [
    [deliveries.failed, 'failed'],
    [deliveries.pending, 'pending'],
    [deliveries.delivered, 'delivered'],
    [deliveries.canceled, 'canceled'],
    [skipped, 'skipped'],
  ] as const;
  const phrases = parts.filter(([n]) => n > 0).map(([n, word]) => `${n} ${word}`);
  return phrases.join(', ') || 'No webhook subscribed';
}
