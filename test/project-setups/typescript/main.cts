import express = require('express');
import gatewayPackage = require('express-model-gateway');

import { createModelGateway, GatewayError, type ModelGateway, type ModelGatewayOptions } from 'express-model-gateway';
import { verifySignature } from 'express-model-gateway/receiver';

import mongoose = require('mongoose');

const options: ModelGatewayOptions = { mongo: mongoose, secretKeys: ['k1:…'] };
gatewayPackage.createModelGateway(options).catch((error: unknown) => {
  const refused: GatewayError | null = error instanceof GatewayError ? error : null;
  console.log(createModelGateway === gatewayPackage.createModelGateway, refused?.code, typeof verifySignature);
});

export function mount(gateway: ModelGateway): express.Express {
  return express().use('/api', gateway.router);
}

export async function publishes(): Promise<void> {
  const gateway = await createModelGateway({
    ...options,
    eventTypes: { 'order.shipped': { schema: {}, example: {} } },
  });
  await gateway.publish({ type: 'order.shipped', userId: 'usr_1', data: {} });
}
