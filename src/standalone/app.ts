import express, { type ErrorRequestHandler, type Express, type RequestHandler, type Response } from 'express';
import helmet from 'helmet';
import { GatewayError } from '../errors.ts';
import { newId } from '../ids.ts';

function answer(res: Response, error: GatewayError): void {
  if (!res.hasHeader('x-request-id')) res.setHeader('x-request-id', newId('req', Date.now()));
  res.status(error.status).json(error.toBody());
}

const notFound: RequestHandler = (req, res) => {
  answer(res, new GatewayError('not_found', `There is no ${req.method} ${req.path} here; everything is under /v1`));
};

/** Express' own errors, such as a path that is no valid URI: their status is known, their text is not for callers. */
const failed: ErrorRequestHandler = (error, _req, res, next) => {
  if (res.headersSent) return next(error);
  const fromCaller = Number(error?.status) >= 400 && Number(error?.status) < 500;
  answer(
    res,
    fromCaller
      ? new GatewayError('invalid_value', 'The request cannot be read; is its path a valid URI?')
      : new GatewayError('internal_error', 'The gateway failed at this request'),
  );
};

/**
 * The app that serves a gateway by itself: with the usual safe headers, and the error shape for every path it has not.
 * @param hstsMaxAge for how long browsers shall use this host by TLS alone, in milliseconds (RFC 6797); left out, nothing is
 * said of it, for whether there is TLS in front is for the operator to say
 */
export function createApp(router: RequestHandler, hstsMaxAge?: number): Express {
  const strictTransportSecurity = hstsMaxAge !== undefined && {
    maxAge: Math.floor(hstsMaxAge / 1_000),
    includeSubDomains: false,
  };
  return express().disable('x-powered-by').use(helmet({ strictTransportSecurity }), router, notFound, failed);
}
