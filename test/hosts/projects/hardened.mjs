import express from 'express';
import { createModelGateway, GatewayError } from 'express-model-gateway';
import { webhookReceiver } from 'express-model-gateway/receiver';
import mongoose from 'mongoose';
import { tryHost } from './host.cjs';

mongoose.set('sanitizeFilter', true);
mongoose.set('strictQuery', 'throw');
mongoose.set('autoIndex', false);
mongoose.set('bufferCommands', false);
/** Nothing is ever deleted, and each query is the tenant's own. */
mongoose.plugin((schema) => {
  schema.add({ deletedAt: Date, tenant: String });
  schema.pre(/^(find|update|delete)/, function onlyOfTenant() {
    this.where({ deletedAt: null, tenant: 'none' });
  });
  schema.set('toJSON', { transform: () => ({}) });
});

await tryHost({ express, mongoose, createModelGateway, GatewayError, webhookReceiver });
