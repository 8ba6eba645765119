import { once } from 'node:events';
import express from 'express';
import { createModelGateway } from 'express-model-gateway';
import mongoose from 'mongoose';

const mongo = await mongoose.createConnection(process.env.MONGODB_URI).asPromise();
const gateway = await createModelGateway({
  mongo,
  secretKeys: [`k1:${Buffer.alloc(32, 1).toString('base64')}`],
  upstreams: [{ name: 'none', baseUrl: 'http://127.0.0.1:9/v1', apiKey: 'none' }],
  logger: { error() {}, warn() {}, info() {} },
});
const { key } = await gateway.keys.create({ userId: 'usr_1' });
const server = express().use(gateway.router).listen(0, '127.0.0.1');
await once(server, 'listening');

const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
const webhook = { url: 'https://example.com/hooks', events: ['credits.low'], secret: 'a-long-enough-secret' };
for (const [method, path, body] of [
  ['POST', '/v1/webhooks', webhook],
  ['POST', '/v1/webhooks', { ...webhook, events: undefined }],
  ['POST', '/v1/webhooks', { ...webhook, events: ['credits.low', 7] }],
  ['POST', '/v1/webhooks', { ...webhook, colour: 'red' }],
  ['GET', '/v1/deliveries?limit=2'],
  ['GET', '/v1/deliveries?limit=many'],
]) {
  const url = `http://127.0.0.1:${server.address().port}${path}`;
  const response = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
  const { error } = await response.json();
  console.log(response.status, error?.code ?? '-', error?.param ?? '-');
}

server.closeAllConnections();
server.close();
await gateway.close();
await mongo.close();
