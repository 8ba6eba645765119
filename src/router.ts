import type { OperationTable } from './http/operation.ts';
import { webhookOperations } from './webhooks/routes.ts';
import type { WebhookService } from './webhooks/service.ts';

/** The parts that answer requests. */
export interface RouterParts {
  /** The model endpoints. */
  readonly models: OperationTable;
  readonly webhooks: WebhookService;
}

/** The one table: every operationId of openapi.yaml, and what does it. */
export function operationTable({ models, webhooks }: RouterParts): OperationTable {
  return { ...models, ...webhookOperations(webhooks) };
}
