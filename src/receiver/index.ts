export { type WebhookEvent, type WebhookReceiver, type WebhookReceiverOptions, webhookReceiver } from './middleware.ts';
export { ReceiverError, type ReceiverErrorCode } from './receiver-error.ts';
export { type DeliveryHeaders, verifySignature } from './verify.ts';
