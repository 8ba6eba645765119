import type { EndedAttempt } from '../deliveries/claims.ts';
import type { EndedRequest } from '../http/operation.ts';
import type { Logger } from '../options/options.ts';

/** What a line says of a request. Leaves the path out: a client may have put a secret into it. */
function requestFields({ principal, code, clientDisconnected, relayed, ...request }: EndedRequest) {
  const { requestId, method, operation, status, durationMs } = request;
  return {
    requestId,
    method,
    operation,
    ...(status !== undefined && { status }),
    durationMs: Math.round(durationMs),
    ...(principal && { userId: principal.userId }),
    ...(principal?.keyId !== undefined && { keyId: principal.keyId }),
    ...relayed,
    ...(code !== undefined && { code }),
    ...(clientDisconnected && { clientDisconnected }),
  };
}

function attemptFields({ deliveryId, eventId, webhookId, userId, number, durationMs, status, code }: EndedAttempt) {
  return {
    deliveryId,
    eventId,
    webhookId,
    userId,
    ...(number === undefined ? { manual: true } : { attempt: number }),
    outcome: code === undefined ? 'succeeded' : 'failed',
    ...(status !== undefined && { status }),
    ...(code !== undefined && { code }),
    durationMs: Math.round(durationMs),
  };
}

/** Writes a line for each request and each attempt that has ended. */
export function createRequestLog(logger: Logger) {
  return {
    ended: (request: EndedRequest) => logger.info('request', requestFields(request)),
    attempted: (attempt: EndedAttempt) => logger.info('delivery attempt', attemptFields(attempt)),
  };
}
