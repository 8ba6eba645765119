import type { RequestListener } from 'node:http';
import express, { type ErrorRequestHandler, type Express } from 'express';
import express4 from 'express4';
import { hardenServer, type ModelGateway } from '../../../../src/index.ts';
import { type Listening, listen } from '../../../support/listen.ts';

type Framework = { (): Express; json: typeof express.json };
type Router = ModelGateway['router'];

/** A way to serve a gateway together with a host's app. */
export interface Mounting {
  readonly name: string;
  readonly framework: Framework;
  /** What stands before every path. */
  readonly prefix: string;
  readonly inFront: boolean;
}

const express5: Framework = express;

/** As the gateway was served before anything else; what the others are compared with. */
export const inExpress: Mounting = { name: 'in Express 5', framework: express5, prefix: '', inFront: false };

export const otherMountings: readonly Mounting[] = [
  { name: 'in Express 4', framework: express4 as Framework, prefix: '', inFront: false },
  { name: 'in Express 5, below a prefix', framework: express5, prefix: '/api/llm', inFront: false },
  { name: 'in front of Express 5', framework: express5, prefix: '', inFront: true },
  { name: 'in front of Express 4', framework: express4 as Framework, prefix: '', inFront: true },
];

const answerFailure: ErrorRequestHandler = (error, _req, res, _next) => {
  res.status(500).json({ host: true, failed: error.message });
};

/** The host's own routes, which tell what they were asked. */
function addHostRoutes(app: Express, { framework, prefix }: Mounting): void {
  app.get(`${prefix}/boom`, () => {
    throw new Error('of the host');
  });
  app.use(framework.json(), (req, res) => {
    const { method, originalUrl, baseUrl } = req;
    // where there is no body, the versions of Express differ
    const body = req.body ?? {};
    res.status(method === 'OPTIONS' ? 204 : 404).json({ host: true, method, originalUrl, baseUrl, body });
  });
  app.use(answerFailure);
}

function listenerOf(router: Router, mounting: Mounting): RequestListener {
  // these two are Express's own, the tag made from a body with the prefix in it
  const app = mounting.framework().disable('x-powered-by').disable('etag');
  if (!mounting.inFront) app.use(mounting.prefix || '/', router);
  addHostRoutes(app, mounting);
  return mounting.inFront ? (req, res) => router(req, res, () => app(req, res)) : app;
}

/** Serves a gateway in one of these ways, by a server as README tells hosts to prepare it. */
export function serve(router: Router, mounting: Mounting): Promise<Listening> {
  return listen(listenerOf(router, mounting), hardenServer);
}
