import { randomBytes } from 'node:crypto';
import type { Connection } from 'mongoose';
import { parseNetworks } from '../../src/outbound/addresses.ts';
import { createWebhookModel, type WebhookModel } from '../../src/webhooks/model.ts';
import { createSealer } from '../../src/webhooks/secrets.ts';
import { createWebhookService, type WebhookService, type WebhookServiceDeps } from '../../src/webhooks/service.ts';

const types = ['credits.low', 'payment.completed', 'usage.threshold'] as const;

/** What a customer sends who does everything right. */
export const valid = {
  url: 'https://example.com/webhooks',
  events: ['payment.completed', 'credits.low'],
  secret: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
};

/** A service over the webhooks of one connection; rules and limits as in production unless a test says otherwise. */
export async function webhookService(
  connection: Connection,
  deps: Partial<WebhookServiceDeps> = {},
): Promise<{ service: WebhookService; webhooks: WebhookModel }> {
  const made = webhookServiceOf(connection, deps);
  await made.webhooks.createIndexes();
  return made;
}

/** The same where the indexes are there, or cannot be built. */
export function webhookServiceOf(connection: Connection, deps: Partial<WebhookServiceDeps> = {}) {
  const webhooks = createWebhookModel(connection, 'gateway_');
  const service = createWebhookService({
    webhooks,
    sealer: createSealer([`k1:${randomBytes(32).toString('base64')}`]),
    catalogueTypes: new Set(types),
    rules: { allowHttp: false, networks: parseNetworks([]) },
    maxWebhooks: 50,
    ...deps,
  });
  return { service, webhooks };
}
