import express from 'express';
import { createModelGateway, GatewayError } from 'express-model-gateway';
import { webhookReceiver } from 'express-model-gateway/receiver';
import mongoose from 'mongoose';
import { expect, test } from 'vitest';
import { tryHost } from './host.cjs';

test('a host', { timeout: 60_000 }, async () => {
  const packages = { express, mongoose, createModelGateway, GatewayError, webhookReceiver };
  expect(await tryHost(packages)).toHaveProperty('delivered', true);
});
