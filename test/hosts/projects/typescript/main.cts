import express = require('express');
import gatewayPackage = require('express-model-gateway');

import { createModelGateway, GatewayError, type ModelGateway, type ModelGatewayOptions } from 'express-model-gateway';
import { webhookReceiver } from 'express-model-gateway/receiver';

import mongoose = require('mongoose');

import { tryHost } from './host.cjs';

if (createModelGateway !== gatewayPackage.createModelGateway) throw new Error('there are two of the package');

export const codeOf = (error: unknown): string | undefined => {
  const refused: GatewayError | null = error instanceof GatewayError ? error : null;
  return refused?.code;
};

export function mount(gateway: ModelGateway): express.Express {
  return express().use('/api', gateway.router);
}

export async function publishes(options: ModelGatewayOptions): Promise<void> {
  const gateway = await createModelGateway({
    ...options,
    mongo: mongoose,
    eventTypes: { 'order.shipped': { schema: {}, example: {} } },
  });
  await gateway.publish({ type: 'order.shipped', userId: 'usr_1', data: {} });
}

void tryHost({ express, mongoose, createModelGateway, GatewayError, webhookReceiver });
