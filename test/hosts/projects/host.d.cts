import type { RequestListener } from 'node:http';
import type { createModelGateway, GatewayError, ModelGateway, ModelGatewayOptions } from 'express-model-gateway';
import type { WebhookReceiver, webhookReceiver } from 'express-model-gateway/receiver';
import type mongoose from 'mongoose';

export interface Packages {
  readonly express?: unknown;
  readonly mongoose: typeof mongoose;
  readonly createModelGateway: typeof createModelGateway;
  readonly GatewayError: typeof GatewayError;
  readonly webhookReceiver: typeof webhookReceiver;
}

export type Serve = (
  gateway: ModelGateway,
  receiver: WebhookReceiver,
) => Promise<{ readonly url: string; close(): unknown }>;

export interface HostOptions {
  readonly serve?: Serve;
  readonly mongo?: mongoose.ConnectOptions;
  readonly gateway?: Partial<ModelGatewayOptions>;
  readonly paths?: readonly string[];
}

export function tryHost(packages: Packages, options?: HostOptions): Promise<object>;
export function onExpress(express: unknown, wrap?: (app: RequestListener) => RequestListener): Serve;
