import { startModelServer } from '../../support/model-server.ts';
import { ownedByAll } from './endpoint-calls.ts';

/**
 * A process that relays model calls and tells what memory it has: `tsx --expose-gc measured-server.ts <upstream's base URL>`.
 * Sends its base URL when it listens, and what is left after a collection for every message it gets.
 */
const server = await startModelServer({
  upstreams: [{ name: 'one', baseUrl: process.argv[2] ?? '' }],
  storedObjects: ownedByAll('one'),
});
process.on('message', () => {
  global.gc?.();
  process.send?.(process.memoryUsage());
});
process.on('disconnect', () => process.exit());
process.send?.(server.baseUrl);
