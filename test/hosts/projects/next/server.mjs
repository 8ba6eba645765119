import { once } from 'node:events';
import http from 'node:http';
import { createModelGateway, GatewayError } from 'express-model-gateway';
import { webhookReceiver } from 'express-model-gateway/receiver';
import mongoose from 'mongoose';
import next from 'next';
import { tryHost } from './host.cjs';

const app = next({ dev: false });
await app.prepare();
const servePage = app.getRequestHandler();

async function serve(gateway, receiver) {
  const server = http.createServer((req, res) => {
    if (req.url === '/hooks') receiver(req, res, (error) => res.destroy(error));
    else gateway.router(req, res, () => servePage(req, res));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    server.closeAllConnections();
    server.close();
    await app.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}

await tryHost({ mongoose, createModelGateway, GatewayError, webhookReceiver }, { serve, paths: ['/'] });
