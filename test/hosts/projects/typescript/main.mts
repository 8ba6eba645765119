import http from 'node:http';
import https from 'node:https';
import express from 'express';
import { createModelGateway, GatewayError, type ModelGateway, type ModelGatewayOptions } from 'express-model-gateway';
import { verifySignature, type WebhookEvent, webhookReceiver } from 'express-model-gateway/receiver';
import mongoose from 'mongoose';
import { tryHost } from './host.cjs';

export function mount(gateway: ModelGateway): express.Express {
  return express().use('/api', gateway.router);
}

export function inFront(gateway: ModelGateway, app: express.Express): http.Server[] {
  return [
    http.createServer((req, res) => gateway.router(req, res, () => app(req, res))),
    https.createServer((req, res) => gateway.router(req, res, () => app(req, res))),
    http.createServer(gateway.router),
  ];
}

export async function publishes(options: ModelGatewayOptions): Promise<void> {
  // @ts-expect-error a gateway has no such option
  await createModelGateway({ mongo: 'mongodb://127.0.0.1/none', secretKeys: [], colour: 'red' });
  const gateway = await createModelGateway({ ...options, mongo: mongoose });
  await gateway.publish({
    type: 'credits.low',
    userId: 'usr_1',
    data: { user_id: 'usr_1', credits_remaining: 1, threshold: 2 },
  });
}

export const codeOf = (error: unknown): string | null => (error instanceof GatewayError ? error.code : null);

export const isRight: boolean = verifySignature('{}', 'sha256=', 'a-long-enough-secret');

export const receiver = webhookReceiver({ secret: 'a-long-enough-secret', onEvent: (event: WebhookEvent) => event.id });

void tryHost({ express, mongoose, createModelGateway, GatewayError, webhookReceiver });
