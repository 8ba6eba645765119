import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type express from 'express';
import { readText } from '../openapi/read-document.ts';
import { type Spec, sharedSpec } from '../openapi/spec.ts';
import type { Logger } from '../options/options.ts';
import type { OpenRequests } from './request.ts';
import { answerReads } from './router.ts';

/** How long clients and proxies keep the document without asking again. Seconds. */
const maxAge = 300;

function send(req: IncomingMessage, res: ServerResponse, { type, bytes, etag }: ServedDocument): void {
  res.setHeader('etag', etag);
  res.setHeader('cache-control', `public, max-age=${maxAge}`);
  // whether the client has this version already (RFC 9110, section 13.1.2)
  const versions = (req.headers['if-none-match'] ?? '').split(',').map((version) => version.trim().replace(/^W\//, ''));
  if (versions.includes(etag) || versions.includes('*')) return void res.writeHead(304).end();
  res.setHeader('content-type', `${type}; charset=utf-8`);
  res.setHeader('content-length', bytes.length);
  res.setHeader('x-content-type-options', 'nosniff');
  res.end(req.method === 'HEAD' ? undefined : bytes);
}

/** openapi.yaml in one of its formats, for a router mounted at one place. */
interface ServedDocument {
  readonly mountPath: string;
  readonly type: string;
  readonly bytes: Buffer;
  /** A strong validator (RFC 9110, section 8.8.3). */
  readonly etag: string;
}

/** Makes the function that gives a document as a client at `mountPath` needs it: `/` or `/api/llm`. */
function createServedDocument(
  type: string,
  write: (mountPath: string) => string,
): (mountPath: string) => ServedDocument {
  // one is kept: most routers are mounted once, and a path with parameters has any number of them
  let last: ServedDocument | undefined;
  return (mountPath) => {
    if (last?.mountPath === mountPath) return last;
    const bytes = Buffer.from(write(mountPath));
    const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
    last = { mountPath, type, bytes, etag };
    return last;
  };
}

/** What readers of YAML refuse, or take for line breaks, where it stands as it is (YAML 1.2, 5.1 and 5.4). */
const unprintable = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g;
const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

const description = 'This gateway. Every path starts with /v1.';

/** Serves openapi.yaml, with the host's own paths, as JSON and as YAML to anybody, with the router's own mount path as its server. */
export function addOpenApiRoutes(
  router: express.Router,
  deps: { readonly spec: Pick<Spec, 'paths'>; readonly openRequests: OpenRequests; readonly logger: Logger },
): void {
  const { paths } = deps.spec;
  const known = sharedSpec().paths;
  let json: string | undefined;
  let yaml: string | undefined;
  const jsonAt = createServedDocument('application/json', (url) => {
    json ??= JSON.stringify({ ...sharedSpec(), paths, servers: undefined });
    return `{"servers":${JSON.stringify([{ url, description }])},${json.slice(1)}`;
  });
  const yamlAt = createServedDocument('application/yaml', (url) => {
    // JSON is YAML, so that no path needs escapes of another kind
    const servers = `servers:\n  - url: ${JSON.stringify(url)}\n    description: ${description}\n`;
    yaml ??= readText().replace(/^paths:\n/m, (line) => {
      const added = Object.entries(paths).filter(([path]) => !Object.hasOwn(known, path));
      const lines = added.map(([path, item]) => `  ${JSON.stringify(path)}: ${JSON.stringify(item)}\n`);
      return line + lines.join('').replace(unprintable, escaped);
    });
    return yaml.replace(/^servers:\n(?: .*\n)+/m, () => servers);
  });
  for (const [path, documentAt] of [
    ['/v1/openapi.json', jsonAt],
    ['/v1/openapi.yaml', yamlAt],
  ] as const) {
    // a router in front of Express has no `baseUrl`
    router.all(
      path,
      answerReads(deps, (req, res) => send(req, res, documentAt((req.baseUrl as string | undefined) || '/'))),
    );
  }
}
