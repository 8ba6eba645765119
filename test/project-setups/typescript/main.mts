import http from 'node:http';
import https from 'node:https';
import express from 'express';
import { createModelGateway, GatewayError, type ModelGateway, type ModelGatewayOptions } from 'express-model-gateway';
import { verifySignature } from 'express-model-gateway/receiver';

const options: ModelGatewayOptions = { mongo: 'mongodb://127.0.0.1/none', secretKeys: ['k1:…'] };
const refused: unknown = await createModelGateway(options).catch((error: unknown) => error);
console.log(refused instanceof GatewayError, (refused as GatewayError).code, typeof verifySignature);

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
