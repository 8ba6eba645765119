import type { IncomingMessage, ServerResponse } from 'node:http';
import helmet from 'helmet';
import { GatewayError } from '../errors.ts';
import type { Authenticator } from '../http/authentication/authenticator.ts';
import type { Api, Edge } from '../http/edge.ts';
import type { OpenRequests } from '../http/open-requests.ts';
import { accountScopes, type Reply } from '../http/operation.ts';
import { answerError, isAnswered } from '../http/reply/answer-error.ts';
import { sendReply } from '../http/reply/reply.ts';
import { requestId } from '../http/request-id.ts';
import { originForm, requireOneHost } from '../http/target.ts';
import type { DashboardOptions, Logger } from '../options/options.ts';
import { contentSecurityPolicy } from './document.ts';
import { loadFiles, sendFile } from './files.ts';

export interface DashboardDeps {
  readonly dashboard: DashboardOptions;
  readonly authenticator: Authenticator;
  /** Everything under `/v1`: mounted beside the dashboard, and a second time below its path, where sessions count too. */
  readonly api: Api;
  readonly openRequests: OpenRequests;
  readonly logger: Logger;
}

const secure = helmet({
  contentSecurityPolicy: { useDefaults: false, directives: contentSecurityPolicy },
  xFrameOptions: { action: 'deny' },
  // only the host knows whether it always has TLS
  strictTransportSecurity: false,
});

/** Sets helmet's headers. This is synchronous and cannot fail. */
function setSafeHeaders(req: IncomingMessage, res: ServerResponse): void {
  secure(req, res, () => {});
}

/** The path below the dashboard's own, without the query; `undefined` for any other path. */
function below(path: string, url: string): string | undefined {
  const asked = url.split('?', 1)[0] ?? '';
  if (asked !== path && !asked.startsWith(`${path}/`)) return undefined;
  return asked.slice(path.length);
}

function requireReading({ method }: IncomingMessage): void {
  if (method === 'GET' || method === 'HEAD') return;
  throw new GatewayError('method_not_allowed', 'This path takes GET, HEAD', { headers: { allow: 'GET, HEAD' } });
}

/**
 * Makes the middleware that serves the page and its few routes, and the API, also below them.
 * @throws GatewayError `invalid_options` when the page has not been built
 */
export function createDashboard({ dashboard, authenticator, api, openRequests, logger }: DashboardDeps): Edge {
  const { path, authenticate } = dashboard;
  const findFile = loadFiles(authenticate !== undefined);
  const apiBeside = api(authenticator.byKey);
  const apiBelow = api(async (req) => (await authenticator.byKeyOrSession(req)).principal);
  const withSlash = `${path.slice(path.lastIndexOf('/') + 1)}/`;

  async function session(req: IncomingMessage): Promise<Reply> {
    const { principal, via } = await authenticator.byKeyOrSession(req);
    const { userId, scopes = accountScopes } = principal;
    return { status: 200, body: { user_id: userId, scopes, via }, headers: { 'cache-control': 'no-store' } };
  }

  /** Answers one of our own paths. */
  async function answer(req: IncomingMessage, res: ServerResponse, rest: string): Promise<void> {
    const id = requestId(req, res);
    try {
      res.setHeader('x-request-id', id);
      setSafeHeaders(req, res);
      openRequests.add(res);
      requireOneHost(req);
      requireReading(req);
      const file = findFile(rest);
      if (file) sendFile(req, res, file);
      else if (rest === '/session') sendReply(req, res, await session(req));
      else res.writeHead(308, { location: withSlash, 'content-length': 0 }).end();
    } catch (error) {
      answerError(req, res, error, { requestId: id, logger });
    }
  }

  /** Passes a request on to the API, which passes on to the host, unchanged, what it does not know. */
  function passOn(req: IncomingMessage & { originalUrl?: string }, res: ServerResponse, next: () => void): void {
    const { url = '' } = req;
    // as Express does, so that later middleware sees the whole URL
    req.originalUrl ??= url;
    req.url = originForm(url).slice(path.length);
    apiBelow(req, res, () => {
      req.url = url;
      next();
    });
  }

  return function edge(req, res, next) {
    const rest = below(path, originForm(req.url ?? ''));
    if (rest === undefined || req.method === 'OPTIONS') apiBeside(req, res, next);
    else if (rest.startsWith('/v1/')) passOn(req, res, next);
    else if (rest === '' || rest === '/session' || findFile(rest)) {
      if (!isAnswered(res, logger)) void answer(req, res, rest);
    } else next();
  };
}
