export type { WebhookEvent } from './event.ts';
export { type WebhookReceiver, type WebhookReceiverOptions, webhookReceiver } from './middleware.ts';
export { verifySignature } from './verify.ts';
