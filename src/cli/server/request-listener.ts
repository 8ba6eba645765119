import type { RequestListener } from 'node:http';
import helmet from 'helmet';

/**
 * Serves a gateway without a host's app: the router alone, which answers 404 to what it does not know. All of it has the
 * usual safe headers.
 * @param hstsMaxAge how long browsers use this host over TLS only, in milliseconds (RFC 6797). @default the header is not
 * sent, because only the operator knows whether there is TLS in front
 */
export function createRequestListener(router: RequestListener, hstsMaxAge?: number): RequestListener {
  const strictTransportSecurity = hstsMaxAge !== undefined && {
    maxAge: Math.floor(hstsMaxAge / 1_000),
    includeSubDomains: false,
  };
  const secure = helmet({ strictTransportSecurity });
  return (req, res) => secure(req, res, () => router(req, res));
}
