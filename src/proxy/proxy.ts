import type { ServerResponse } from 'node:http';
import { GatewayError } from '../errors.ts';
import type { Call, OperationTable } from '../http/operation.ts';
import type { Logger, UpstreamOptions } from '../options.ts';
import { createHttpClient } from '../outbound/client.ts';
import { createDispatcher } from '../outbound/dispatcher.ts';
import { relay, type UpstreamRequest } from './relay.ts';
import { modelOperations } from './routes.ts';
import { createUpstream } from './upstream.ts';

/** Relays one call; what every model operation comes down to. */
export type Relay = (request: UpstreamRequest, call: Call, res: ServerResponse) => Promise<void>;

export interface ProxyDependencies {
  readonly upstreams: readonly UpstreamOptions[];
  readonly logger: Logger;
}

export interface ModelProxy {
  readonly operations: OperationTable;
  /** Ends every connection to the upstreams. Call it when no call is in flight: those that are break off. */
  close(): Promise<void>;
}

/** The model endpoints over the upstreams of the options. */
export function createProxy(deps: ProxyDependencies): ModelProxy {
  const dispatcher = createDispatcher();
  const http = createHttpClient(dispatcher);
  const upstreams = deps.upstreams.map(createUpstream);

  return {
    operations: modelOperations(async (request, call, res) => {
      const [upstream] = upstreams;
      if (!upstream) throw new GatewayError('model_not_found', 'No model provider is configured.', { param: 'model' });
      await relay(http, upstream, request, call, res);
    }),
    close: () => dispatcher.destroy(),
  };
}
