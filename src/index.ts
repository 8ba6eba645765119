export { type ErrorBody, type ErrorCode, GatewayError } from './errors.ts';
export type { EventInput, PublishedEvent } from './events/publication.ts';
export type { PublishOptions } from './events/service.ts';
export { createModelGateway, type ModelGateway } from './gateway.ts';
export { keepRawBody } from './http/kept-body.ts';
export type { Principal } from './http/operation.ts';
export type { ApiKey, NewApiKey } from './keys/service.ts';
export { defaultRetryDelays, type Logger, type ModelGatewayOptions, type UpstreamOptions } from './options.ts';
export type { NewWebhook, Webhook, WebhookPatch } from './webhooks/webhook.ts';
