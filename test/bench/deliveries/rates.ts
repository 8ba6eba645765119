import type { Notes } from './notes.ts';
import type { Usage } from './usage.ts';

/** What the figures of a row are called. */
export const rateNames = (row: string) => ({
  rate: `${row}, 16 publishers over HTTP, published to delivered`,
  cpu: `${row}: CPU of the sender, a delivery`,
  cpuWithMongod: `${row}: CPU of sender and mongod, a delivery`,
  operations: `${row}: operations on the database, a delivery`,
  requests: `${row}: requests to the database, a delivery`,
});

/** Notes what deliveries of a row at full rate came to. */
export function addRate(notes: Notes, row: string, found: Usage & { rate: number }): void {
  const names = rateNames(row);
  notes.add(names.rate, 'deliveries/s', found.rate);
  notes.add(names.cpu, 'ms', found.cpu);
  notes.add(names.cpuWithMongod, 'ms', found.cpu + found.mongod);
  notes.add(names.operations, '', found.operations);
  notes.add(names.requests, '', found.requests);
}
