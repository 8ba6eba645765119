import express from 'express';
import { createModelGateway, GatewayError } from 'express-model-gateway';
import { webhookReceiver } from 'express-model-gateway/receiver';
import mongoose from 'mongoose';
import { tryHost } from './host.cjs';
import { mongo } from './mongo.cjs';

test('a host', async () => {
  const packages = { express, mongoose, createModelGateway, GatewayError, webhookReceiver };
  expect(await tryHost(packages, { mongo })).toHaveProperty('published', 'evt_');
}, 60_000);
