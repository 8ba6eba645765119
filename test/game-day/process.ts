import express from 'express';
import { createOperationsListener } from '../../src/cli/server/http-server.ts';
import { createModelGateway, type GatewayHealth, type ModelGatewayOptions } from '../../src/index.ts';
import { loopbackOptions } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';

export type Settings = Pick<ModelGatewayOptions, 'mongo' | 'secretKeys' | 'upstreams'>;

/** What stands for a process: a gateway with its API, and its probes and metrics on another port, as the stand-alone server has them. */
export async function startProcess(settings: Settings, isWorker: boolean) {
  const gateway = await createModelGateway({
    ...loopbackOptions,
    ...settings,
    retryDelays: [2_000, 2_000],
    deliveries: { concurrencyPerWebhook: 2 },
  });
  const api = await listen(express().use(gateway.router));
  const operations = await listen(createOperationsListener(gateway));
  if (isWorker) await gateway.start();
  return {
    gateway,
    /** Makes a model call. Resolves to the status of the answer. */
    async call(model: string, apiKey: string): Promise<number> {
      const response = await fetch(`${api.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }),
      });
      await response.arrayBuffer();
      return response.status;
    },
    metrics: async () => (await fetch(`${operations.url}/metrics`)).text(),
    async readyz(): Promise<GatewayHealth & { readonly status: number }> {
      const response = await fetch(`${operations.url}/readyz`);
      return { status: response.status, ...((await response.json()) as GatewayHealth) };
    },
    async stop() {
      await operations.close();
      await api.close();
      await gateway.close();
    },
  };
}
