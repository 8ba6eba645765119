import { once } from 'node:events';
import functions from '@google-cloud/functions-framework';
import testing from '@google-cloud/functions-framework/testing';
import express from 'express';
import { createModelGateway, GatewayError } from 'express-model-gateway';
import { webhookReceiver } from 'express-model-gateway/receiver';
import mongoose from 'mongoose';
import { tryHost } from './host.cjs';

/** One function is the whole app, as with `onRequest(app)`; the framework in front has read each body. */
async function serve(gateway, receiver) {
  functions.http('api', express().post('/hooks', receiver).use(gateway.router));
  const server = testing.getTestServer('api').listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}

/** Says so if the exact bytes of bodies are lost. */
const logger = {
  error: console.error,
  warn: (message) => message.includes('keepRawBody') && console.error(message),
  info() {},
};

await tryHost({ mongoose, createModelGateway, GatewayError, webhookReceiver }, { serve, gateway: { logger } });
