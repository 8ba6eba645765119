import type { DeliveryState } from './model.ts';

/**
 * How an event stands, from how its deliveries do: failed as soon as one has failed, else pending while one is;
 * canceled when all were. An event for nobody has been delivered to everybody.
 * @see interface.md, Events, rule 5
 */
export function eventState(deliveries: readonly { readonly state: DeliveryState }[]): DeliveryState {
  const states = new Set(deliveries.map(({ state }) => state));
  if (states.has('failed')) return 'failed';
  if (states.has('pending')) return 'pending';
  return states.size === 1 && states.has('canceled') ? 'canceled' : 'delivered';
}
