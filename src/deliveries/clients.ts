import { createHttpClient } from '../outbound/client.ts';
import { createDispatcher, type DispatcherOptions } from '../outbound/dispatcher.ts';
import type { DeliveryClients } from './send.ts';

/** What connections of deliveries must obey. */
export type ClientOptions = Required<Pick<DispatcherOptions, 'allowAddress'>> &
  Pick<DispatcherOptions, 'ca' | 'resolve' | 'connectTimeout'>;

/** Pools of their own: a connection that was opened without the guard must never carry a delivery. */
export function createDeliveryClients(options: ClientOptions): DeliveryClients & { close(): Promise<void> } {
  const pooled = createDispatcher(options);
  const fresh = createDispatcher({ ...options, keepAlive: 0 });
  return {
    pooled: createHttpClient(pooled),
    fresh: createHttpClient(fresh),
    async close() {
      await Promise.all([pooled.destroy(), fresh.destroy()]);
    },
  };
}
