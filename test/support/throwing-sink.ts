import type { OutboundError } from '../../src/outbound/outbound-error.ts';
import type { ResponseBody } from '../../src/outbound/response-body.ts';

/** Sends a body to what cannot take it; resolves with what that is told at the end. */
export function throwingSink(body: ResponseBody, error: Error): Promise<'end' | OutboundError> {
  return new Promise((resolve) => {
    body.flowTo({
      onChunk() {
        throw error;
      },
      onEnd: () => resolve('end'),
      onError: resolve,
    });
  });
}
