import type { Notes } from './notes.ts';
import type { Usage } from './usage.ts';

/** How many webhooks each event goes to. */
export const rateRows = [
  { row: 'one webhook', webhooks: 1 },
  { row: 'fan-out to 10', webhooks: 10 },
] as const;

/** What the rate of a row is called. */
export const rateName = (row: string): string => `${row}, 16 publishers over HTTP, published to delivered`;

/** Notes what deliveries of a row at full rate came to. */
export function addRate(note: Notes['add'], row: string, found: Usage & { rate: number }): void {
  note(rateName(row), 'deliveries/s', found.rate);
  note(`${row}: CPU of the sender, a delivery`, 'ms', found.cpu);
  note(`${row}: CPU of sender and mongod, a delivery`, 'ms', found.cpu + found.mongod);
  note(`${row}: operations on the database, a delivery`, '', found.operations);
  note(`${row}: requests to the database, a delivery`, '', found.requests);
}
