import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type express from 'express';
import { GatewayError } from '../errors.ts';
import { sharedSpec } from '../openapi/spec.ts';
import type { Logger } from '../options/options.ts';
import { answerError } from './reply.ts';
import { isAnswered, type OpenRequests, requestId, requireOneHost } from './request.ts';

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

/** Serves openapi.yaml as JSON and as YAML to anybody, with the router's own mount path as its server. */
export function addOpenApiRoutes(
  router: express.Router,
  { openRequests, logger }: { readonly openRequests: OpenRequests; readonly logger: Logger },
): void {
  const documentFor = createServedDocuments();

  function answer(format: DocumentFormat): express.RequestHandler {
    return (req, res, next) => {
      if (req.method === 'OPTIONS') return next();
      if (isAnswered(res, logger)) return;
      const id = requestId(req.headers, res);
      try {
        res.setHeader('x-request-id', id);
        openRequests.track(res);
        requireOneHost(req.headers, req.rawHeaders);
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

/** openapi.yaml in one of its formats, for a router mounted at one place. */
interface ServedDocument {
  readonly type: string;
  readonly bytes: Buffer;
  /** A strong validator (RFC 9110, section 8.8.3). */
  readonly etag: string;
}

type DocumentFormat = 'json' | 'yaml';

const description = 'This gateway. Every path starts with /v1.';

function toDocument(type: string, text: string): ServedDocument {
  const bytes = Buffer.from(text);
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
  return { type, bytes, etag };
}

function asYaml(text: string, url: string): string {
  // JSON is YAML, so that no path needs escapes of another kind
  const servers = `servers:\n  - url: ${JSON.stringify(url)}\n    description: ${description}\n`;
  return text.replace(/^servers:\n(?: .*\n)+/m, () => servers);
}

/** openapi.yaml, read once in a process. */
let text: string | undefined;

/** Makes the function that gives openapi.yaml as a client at `mountPath` needs it: `/` or `/api/llm`. */
function createServedDocuments(): (format: DocumentFormat, mountPath: string) => ServedDocument {
  const documents = new Map<DocumentFormat, { readonly mountPath: string; readonly document: ServedDocument }>();
  let json: string | undefined;
  text ??= readFileSync(new URL('../../openapi.yaml', import.meta.url), 'utf8');
  const yaml = text;

  function make(format: DocumentFormat, url: string): ServedDocument {
    if (format === 'yaml') return toDocument('application/yaml', asYaml(yaml, url));
    json ??= JSON.stringify({ ...sharedSpec(), servers: undefined });
    const servers = JSON.stringify([{ url, description }]);
    return toDocument('application/json', `{"servers":${servers},${json.slice(1)}`);
  }

  return function documentFor(format, mountPath) {
    const last = documents.get(format);
    if (last?.mountPath === mountPath) return last.document;
    const document = make(format, mountPath);
    // one of each is kept: most routers are mounted once, and a path with parameters has any number of them
    documents.set(format, { mountPath, document });
    return document;
  };
}
