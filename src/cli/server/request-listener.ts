import type { RequestListener } from 'node:http';
import express, { type RequestHandler } from 'express';
import helmet from 'helmet';
import { GatewayError } from '../../errors.ts';
import { newId } from '../../ids.ts';
import type { ModelGateway } from '../../index.ts';

const notFound: RequestHandler = (req, res) => {
  const error = new GatewayError('not_found', `There is no ${req.method} ${req.path} here; everything is under /v1`);
  if (!res.hasHeader('x-request-id')) res.setHeader('x-request-id', newId('req', Date.now()));
  res.status(error.status).json(error.toBody());
};

/**
 * What serves a gateway by itself: the router in front, and behind it an Express app that answers 404 in the error shape. All
 * of it has the usual safe headers.
 * @param hstsMaxAge how long browsers use this host over TLS only, in milliseconds (RFC 6797). @default the header is
 * not sent, because only the operator knows whether there is TLS in front
 */
export function createRequestListener(router: ModelGateway['router'], hstsMaxAge?: number): RequestListener {
  const strictTransportSecurity = hstsMaxAge !== undefined && {
    maxAge: Math.floor(hstsMaxAge / 1_000),
    includeSubDomains: false,
  };
  const secure = helmet({ strictTransportSecurity });
  const app = express().disable('x-powered-by').use(notFound);
  return (req, res) => secure(req, res, () => router(req, res, () => app(req, res)));
}
