import type { ResponseBody } from '../../outbound/response-body.ts';

/** A body, or as much of it as may be held. */
export interface Collected {
  readonly bytes: Buffer;
  /** Whether that is all of it; otherwise the rest waits in the body. */
  readonly whole: boolean;
}

/**
 * Holds a body until it is whole or larger than the limit, so that one that breaks off or is not what it says can still be
 * answered with an error. Rejects with the body's OutboundError.
 * @param onProgress told of every chunk
 */
export function collect(body: ResponseBody, limit: number, onProgress?: () => void): Promise<Collected> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let length = 0;
    const joined = (): Buffer => (parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
    body.flowTo({
      onChunk(chunk) {
        onProgress?.();
        parts.push(chunk);
        length += chunk.length;
        if (length <= limit) return true;
        resolve({ bytes: joined(), whole: false });
        return false;
      },
      onEnd: () => resolve({ bytes: joined(), whole: true }),
      onError: reject,
    });
  });
}
