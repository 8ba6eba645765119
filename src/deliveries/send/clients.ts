import type { Dispatcher } from 'undici';
import { createHttpClient, type HttpClient } from '../../outbound/client.ts';
import { createDispatcher, type DispatcherOptions } from '../../outbound/connection-pool.ts';
import type { DeliveryClients } from './send.ts';
import { signRequest } from './sign-request.ts';

/** The rules for connections of deliveries. */
export type ClientOptions = Required<Pick<DispatcherOptions, 'allowAddress'>> &
  Pick<DispatcherOptions, 'allowHttp' | 'ca' | 'resolve' | 'connectTimeout'>;

/**
 * How long an idle connection is kept: shorter than receivers keep theirs. Otherwise requests would meet connections that are
 * being closed, and nothing would tell whether the receiver has read such a request. Milliseconds.
 */
const keepAlive = 1_500;

/** @param dispatcher guards the addresses */
function createSigningClient(dispatcher: Dispatcher): HttpClient {
  const client = createHttpClient(dispatcher);
  client.interceptors.request.use(signRequest, null, { synchronous: true });
  return client;
}

/** Makes separate pools: a connection that was opened without the address guard must never carry a delivery. */
export function createDeliveryClients(options: ClientOptions): DeliveryClients & { close(): Promise<void> } {
  const pooled = createDispatcher({ ...options, keepAlive });
  const fresh = createDispatcher({ ...options, keepAlive: 0 });
  return {
    pooled: createSigningClient(pooled),
    fresh: createSigningClient(fresh),
    async close() {
      await Promise.all([pooled.destroy(), fresh.destroy()]);
    },
  };
}
