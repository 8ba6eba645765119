import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
// works on plain Node requests, is typed and maintained; bundled, so no host installs it
import cors from 'cors';
import helmet from 'helmet';

/** What clients read of answers; browsers show a page of another origin no others. */
const exposedHeaders = [
  'x-request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  ...['limit', 'remaining', 'reset'].flatMap((what) => [`x-ratelimit-${what}-requests`, `x-ratelimit-${what}-tokens`]),
  'openai-processing-ms',
  'openai-version',
];

/** How long browsers keep the answer to a preflight; Chromium takes no more. Seconds. */
const preflightMaxAge = 7_200;

const isApi = ({ url = '' }: IncomingMessage) => /^\/v1(?:[/?]|$)/.test(url);

const isPreflight = ({ method, headers }: IncomingMessage) =>
  method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;

function endPreflight(res: ServerResponse): void {
  res.statusCode = 204;
  // some browsers wait for a body otherwise
  res.setHeader('content-length', '0');
  res.end();
}

/**
 * Lets pages of these origins call the API (the Fetch standard, "CORS protocol"). Only what is below `/v1`: a key says whose such a request
 * is, and a page of another origin has none but its own. The dashboard's requests may be signed in by a cookie, which every page would send,
 * and the probes are not for pages. So there are no credentials.
 */
function withCors(origins: readonly string[], next: RequestListener): RequestListener {
  const allow = cors({
    origin: origins.includes('*') ? '*' : [...origins],
    exposedHeaders,
    maxAge: preflightMaxAge,
    // what is no preflight is the router's
    preflightContinue: true,
  });
  return (req, res) => {
    if (!isApi(req)) return next(req, res);
    allow(req, res, () => {
      if (res.hasHeader('access-control-allow-origin')) res.setHeader('cross-origin-resource-policy', 'cross-origin');
      if (isPreflight(req)) endPreflight(res);
      else next(req, res);
    });
  };
}

/**
 * Serves a gateway without a host's app: the router alone, which answers 404 to what it does not know. All of it has the
 * usual safe headers.
 * @param hstsMaxAge how long browsers use this host over TLS only, in milliseconds (RFC 6797). @default the header is not
 * sent, because only the operator knows whether there is TLS in front
 * @param corsOrigins whose pages may call the API from a browser; `*` is every origin. @default nobody's
 */
export function createRequestListener(
  router: RequestListener,
  hstsMaxAge?: number,
  corsOrigins: readonly string[] = [],
): RequestListener {
  const strictTransportSecurity = hstsMaxAge !== undefined && {
    maxAge: Math.floor(hstsMaxAge / 1_000),
    includeSubDomains: false,
  };
  const secure = helmet({ strictTransportSecurity });
  const serve = corsOrigins.length > 0 ? withCors(corsOrigins, router) : router;
  return (req, res) => secure(req, res, () => serve(req, res));
}
