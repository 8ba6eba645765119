import type { IncomingMessage, ServerResponse } from 'node:http';
import type express from 'express';
import { GatewayError } from '../errors.ts';
import { createServedDocuments, type DocumentFormat, type ServedDocument } from '../openapi/served-document.ts';
import type { Logger } from '../options/options.ts';
import { answerError, isAnswered } from './reply/answer-error.ts';
import type { OpenRequests } from './request/open-requests.ts';
import { requestId } from './request/request-id.ts';
import { requireOneHost } from './request/target.ts';

/** How long clients and proxies keep the document without asking again. Seconds. */
const maxAge = 300;

/** Whether the client has this version already (RFC 9110, section 13.1.2). */
function hasVersion({ headers }: IncomingMessage, etag: string): boolean {
  const versions = (headers['if-none-match'] ?? '').split(',').map((version) => version.trim().replace(/^W\//, ''));
  return versions.includes(etag) || versions.includes('*');
}

function send(req: IncomingMessage, res: ServerResponse, { type, bytes, etag }: ServedDocument): void {
  res.setHeader('etag', etag);
  res.setHeader('cache-control', `public, max-age=${maxAge}`);
  if (hasVersion(req, etag)) return void res.writeHead(304).end();
  res.setHeader('content-type', `${type}; charset=utf-8`);
  res.setHeader('content-length', bytes.length);
  res.setHeader('x-content-type-options', 'nosniff');
  res.end(req.method === 'HEAD' ? undefined : bytes);
}

export interface OpenApiRoutesDeps {
  readonly openRequests: OpenRequests;
  readonly logger: Logger;
}

/** Serves openapi.yaml as JSON and as YAML to anybody, with the router's own mount path as its server. */
export function addOpenApiRoutes(router: express.Router, { openRequests, logger }: OpenApiRoutesDeps): void {
  const documentFor = createServedDocuments();

  function answer(format: DocumentFormat): express.RequestHandler {
    return (req, res, next) => {
      if (req.method === 'OPTIONS') return next();
      if (isAnswered(res, logger)) return;
      const id = requestId(req, res);
      try {
        res.setHeader('x-request-id', id);
        openRequests.add(res);
        requireOneHost(req);
        if (req.method !== 'GET' && req.method !== 'HEAD')
          throw new GatewayError('method_not_allowed', 'This path takes GET, HEAD', {
            headers: { allow: 'GET, HEAD' },
          });
        // a router in front of Express has no `baseUrl`
        send(req, res, documentFor(format, (req.baseUrl as string | undefined) || '/'));
      } catch (error) {
        answerError(req, res, error, { requestId: id, logger });
      }
    };
  }

  router.all('/v1/openapi.json', answer('json')).all('/v1/openapi.yaml', answer('yaml'));
}
