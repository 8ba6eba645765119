import { randomBytes } from 'node:crypto';
import type { Connection } from 'mongoose';
import { parseNetworks } from '../../src/outbound/addresses.ts';
import { createWebhookModel } from '../../src/webhooks/model.ts';
import { createSealer } from '../../src/webhooks/secrets.ts';
import { createWebhookService, type WebhookServiceDeps } from '../../src/webhooks/service.ts';

const types = ['credits.low', 'payment.completed', 'usage.threshold'] as const;

/** What a customer sends who does everything right. */
export const valid = {
  url: 'https://example.com/webhooks',
  events: ['payment.completed', 'credits.low'],
  secret: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
};

interface Choices extends Partial<WebhookServiceDeps> {
  /** What secrets are sealed with. @default a key of its own */
  readonly secretKeys?: readonly string[];
  /** @default 'gateway_' */
  readonly prefix?: string;
}

export type StoredWebhooks = ReturnType<typeof webhookServiceOf>['webhooks'];

/** A service over the webhooks of one connection; rules and limits as in production unless a test says otherwise. */
export async function webhookService(connection: Connection, choices: Choices = {}) {
  const made = webhookServiceOf(connection, choices);
  await made.webhooks.createIndexes();
  return made;
}

/** The same where the indexes are there, or cannot be built. */
export function webhookServiceOf(
  connection: Connection,
  { secretKeys = [`k1:${randomBytes(32).toString('base64')}`], prefix = 'gateway_', ...deps }: Choices = {},
) {
  const webhooks = createWebhookModel(connection, prefix);
  const service = createWebhookService({
    webhooks,
    sealer: createSealer(secretKeys),
    catalogueTypes: new Set(types),
    rules: { allowHttp: false, networks: parseNetworks([]) },
    maxWebhooks: 50,
    ...deps,
  });
  return { service, webhooks };
}
