import express from 'express';
import { createModelGateway, GatewayError } from 'express-model-gateway';
import { webhookReceiver } from 'express-model-gateway/receiver';
import mongoose from 'mongoose';
import { tryHost } from './host.cjs';

tryHost(
  { express, mongoose, createModelGateway, GatewayError, webhookReceiver },
  {
    gateway: { dashboard: { path: '/dashboard' } },
    paths: ['/dashboard/', '/dashboard/reference/', '/v1/openapi.json', '/v1/openapi.yaml'],
  },
);
