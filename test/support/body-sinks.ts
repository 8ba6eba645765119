import { ResponseBody } from '../../src/outbound/exchange.ts';
import type { OutboundError } from '../../src/outbound/outbound-error.ts';

/** How a body ended. */
type Outcome = 'end' | OutboundError;

/** A body that the test sends. */
export function sentBody(): ResponseBody {
  return new ResponseBody({ pause() {}, resume() {}, abort() {} });
}

/** Sends a body to a function; resolves with how it ended. */
export function flow(body: Pick<ResponseBody, 'flowTo'>, onChunk: (chunk: Buffer) => void): Promise<Outcome> {
  return new Promise((resolve) => {
    body.flowTo({
      onChunk(chunk) {
        onChunk(chunk);
        return true;
      },
      onEnd: () => resolve('end'),
      onError: resolve,
    });
  });
}
