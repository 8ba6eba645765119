import os from 'node:os';
import { Test } from '@nestjs/testing';
import { createModelGateway, GatewayError } from 'express-model-gateway';
import { webhookReceiver } from 'express-model-gateway/receiver';
import mongoose from 'mongoose';
import { type Serve, tryHost } from '../host.cjs';
import { AppModule } from './app.module';

const serve: Serve = async (gateway, receiver) => {
  const module = await Test.createTestingModule({ imports: [AppModule] }).compile();
  const app = module.createNestApplication();
  app.use('/hooks', receiver);
  app.use(gateway.router);
  await app.listen(0, '127.0.0.1');
  return { url: await app.getUrl(), close: () => app.close() };
};

it('a host', async () => {
  const packages = { mongoose, createModelGateway, GatewayError, webhookReceiver };
  const report = await tryHost(packages, { serve, mongo: { runtimeAdapters: { os } }, paths: ['/'] });
  expect(report).toHaveProperty('published', 'evt_');
}, 60_000);
