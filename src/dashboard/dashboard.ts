import type { IncomingMessage, ServerResponse } from 'node:http';
import express from 'express';
import helmet from 'helmet';
import type { AddApi } from '../http/api.ts';
import type { Authenticator } from '../http/authentication.ts';
import { sendReply } from '../http/reply.ts';
import { type OpenRequests, pathOf } from '../http/request.ts';
import { answerReads } from '../http/router.ts';
import { describeCodes } from '../openapi/error-codes.ts';
import { sharedSpec } from '../openapi/spec.ts';
import type { DashboardOptions, Logger } from '../options/options.ts';
import { accountScopes } from '../options/principal.ts';
import { type FindFile, jsonFile, loadFiles, pageDocument, referenceDocument, sendFile } from './files.ts';

export interface DashboardDeps {
  readonly dashboard: DashboardOptions;
  /** Whether the API reference is beside the page: it shows `/v1/openapi.json`. */
  readonly reference: boolean;
  /** Whether it is counted what accounts use. */
  readonly usage: boolean;
  /** Whether accounts have credits. */
  readonly credits: boolean;
  readonly authenticator: Authenticator;
  /** Everything under `/v1`: mounted beside the dashboard, and a second time below its path, where sessions count too. */
  readonly addApi: AddApi;
  readonly openRequests: OpenRequests;
  readonly logger: Logger;
}

type SetHeaders = (req: IncomingMessage, res: ServerResponse) => void;

/** Makes a function that sets helmet's headers. It is synchronous and cannot fail. */
function safeHeaders(directives: Readonly<Record<string, string[]>>): SetHeaders {
  const secure = helmet({
    contentSecurityPolicy: { useDefaults: false, directives },
    xFrameOptions: { action: 'deny' },
    // only the host knows whether it always has TLS
    strictTransportSecurity: false,
  });
  return (req, res) => secure(req, res, () => {});
}

/** A page may load its own script and style and call its own API, and nothing from anywhere else. */
const ownOrigin = {
  defaultSrc: ["'none'"],
  scriptSrc: ["'self'"],
  styleSrc: ["'self'"],
  connectSrc: ["'self'"],
  imgSrc: ["'self'", 'data:'],
  baseUri: ["'none'"],
  formAction: ["'none'"],
  frameAncestors: ["'none'"],
};

const setPageHeaders = safeHeaders({
  ...ownOrigin,
  requireTrustedTypesFor: ["'script'"],
  trustedTypes: ["'none'"],
});
// Swagger UI sets innerHTML, to texts of openapi.yaml that DOMPurify has cleaned
const setReferenceHeaders = safeHeaders(ownOrigin);

/** Where a router at `path` has its mount point, relative to `path/`: `../` for `/dashboard`. */
function rootOf(path: string): string {
  return '../'.repeat(path.split('/').length - 1);
}

/**
 * Adds the page and its few routes to a router, and the API, also below them.
 * @throws GatewayError `invalid_options` when the page has not been built
 */
export function addDashboard(router: express.Router, deps: DashboardDeps): void {
  const { dashboard, reference, usage, credits, authenticator, addApi, openRequests, logger } = deps;
  const { path, authenticate } = dashboard;
  const root = rootOf(path);
  const settings = { sessions: authenticate !== undefined, reference, usage, credits, root };
  const findPage = loadFiles('main', (assets) => pageDocument(assets, settings));

  /** Makes the middleware of one of our own paths. */
  const answer = (send: Parameters<typeof answerReads>[1], setHeaders: SetHeaders = setPageHeaders) =>
    answerReads({ openRequests, logger }, send, setHeaders);

  const redirectTo = (location: string): express.RequestHandler => {
    const redirect = answer((_req, res) => res.writeHead(308, { location, 'content-length': 0 }).end());
    return (req, res, next) => (pathOf(req).endsWith('/') ? next() : redirect(req, res, next));
  };
  const session = answer(async (req, res) => {
    const { principal, via } = await authenticator.byKeyOrSession(req);
    const { userId, scopes = accountScopes, models = null, budgets = [], expiresAt } = principal;
    const limits = { models, has_budgets: budgets.length > 0, expires_at: expiresAt?.toISOString() ?? null };
    const headers = { 'cache-control': 'no-store' };
    sendReply(req, res, { status: 200, body: { user_id: userId, scopes, via, ...limits }, headers });
  });
  const describedCodes = jsonFile({ data: describeCodes(sharedSpec()) });
  const errorCodes = answer(async (req, res) => {
    // they are of an API that may not be public
    await authenticator.byKeyOrSession(req);
    sendFile(req, res, describedCodes);
  });
  const filesOf =
    (find: FindFile, setHeaders: SetHeaders): express.RequestHandler =>
    (req, res, next) => {
      const file = find(pathOf(req));
      if (file) answer(() => sendFile(req, res, file), setHeaders)(req, res, next);
      else next();
    };

  const below = express.Router({ caseSensitive: true });
  below.use(filesOf(findPage, setPageHeaders));
  if (reference) {
    const findReference = loadFiles('reference', (assets) => referenceDocument(assets, `../${root}`));
    below.all('/reference', redirectTo('reference/')).use('/reference', filesOf(findReference, setReferenceHeaders));
  }
  addApi(below, async (req) => (await authenticator.byKeyOrSession(req)).principal);
  router
    .all(path, redirectTo(`${path.slice(path.lastIndexOf('/') + 1)}/`))
    .all(`${path}/session`, session)
    .all(`${path}/errors.json`, errorCodes)
    .use(path, below);
  addApi(router, authenticator.byKey);
}
