import { createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

const header = 'idempotency-key';

/**
 * The headers of a caller with its `Idempotency-Key` made one of its account. All accounts share the gateway's key at the
 * upstream: as it came, one account's key could get it the answer that another account asked for. The same key of the same
 * account is always the same there. Pure.
 */
export function withAccountsIdempotencyKey(
  headers: IncomingHttpHeaders,
  userId: string,
  secret: Buffer,
): IncomingHttpHeaders {
  const key = headers[header];
  if (key === undefined) return headers;
  const hidden = createHmac('sha256', secret).update(JSON.stringify([userId, key]));
  return { ...headers, [header]: hidden.digest('base64url') };
}
