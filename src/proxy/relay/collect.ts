import type { RelayedBody } from './decoded-body.ts';

/** A body, or as much of it as the limit allows. */
export interface Collected {
  readonly bytes: Buffer;
  /** Whether that is all of it; if not, the rest waits in the body. */
  readonly whole: boolean;
}

/**
 * Holds a body until it is whole or exceeds the limit, so that the gateway can still answer with an error when it breaks off or
 * is invalid. Rejects with the body's OutboundError.
 * @param onProgress called for every chunk
 */
export function collect(body: RelayedBody, limit: number, onProgress?: () => void): Promise<Collected> {
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
