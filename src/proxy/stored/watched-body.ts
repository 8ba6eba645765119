import type { BodySink } from '../../outbound/response-body.ts';
import type { RelayedBody } from '../relay/decoded-body.ts';

/** The largest body that is kept until it is whole. Bytes. */
const keepLimit = 16 * 1024 * 1024;

/** A body that passes as it comes, and is shown to somebody when it is whole. A larger one is shown as `undefined`. */
export function watchedBody(body: RelayedBody, onWhole: (bytes: Buffer | undefined) => void): RelayedBody {
  function watching(sink: BodySink): BodySink {
    let parts: Buffer[] | undefined = [];
    let length = 0;
    return {
      onChunk(chunk) {
        length += chunk.length;
        if (length > keepLimit) parts = undefined;
        parts?.push(chunk);
        return sink.onChunk(chunk);
      },
      onEnd() {
        onWhole(parts && Buffer.concat(parts));
        sink.onEnd();
      },
      onError: (error) => sink.onError(error),
    };
  }

  return {
    takeWhole() {
      const bytes = body.takeWhole();
      if (bytes) onWhole(bytes);
      return bytes;
    },
    flowTo: (sink) => body.flowTo(watching(sink)),
    resume: () => body.resume(),
    destroy: () => body.destroy(),
  };
}
