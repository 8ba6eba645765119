import http from 'node:http';
import express from 'express';
import { createModelGateway, GatewayError } from 'express-model-gateway';
import { webhookReceiver } from 'express-model-gateway/receiver';
import mongoose from 'mongoose';
import { onExpress, tryHost } from './host.cjs';

/** As everywhere, and Bun's `ws` is not mistaken for the package. */
async function serve(gateway, receiver) {
  try {
    gateway.attach(http.createServer());
  } catch (error) {
    if (!(error instanceof GatewayError) || error.code !== 'websocket_not_served') throw error;
    return onExpress(express)(gateway, receiver);
  }
  throw new Error('WebSockets are attached');
}

await tryHost({ mongoose, createModelGateway, GatewayError, webhookReceiver }, { serve });
