import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hardenServer } from '../../index.ts';
import { type Address, listenAt } from './address.ts';

/** A server that listens. */
export interface RunningServer {
  readonly port: number;
  /** Accepts no more connections and closes those that are open. */
  close(): Promise<void>;
}

/**
 * Starts an HTTP server.
 * @throws GatewayError `invalid_options` that names PORT or HOST when it cannot listen there
 */
export async function startServer(listener: RequestListener, address: Address): Promise<RunningServer> {
  const server = hardenServer(createServer(listener));
  await listenAt(server, address);
  const closed = once(server, 'close');
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
