import type { BodySink } from '../../outbound/exchange.ts';
import type { RelayedBody } from '../answer-body.ts';

/** Sees a body while it passes. Must not throw. */
export interface BodyWatcher {
  read(chunk: Buffer): void;
  /** The body has come to its end. */
  onEnd(): void;
}

/** A body that passes as it comes, and is shown to a watcher. */
export function watchedBody(body: RelayedBody, watcher: BodyWatcher): RelayedBody {
  function watching(sink: BodySink): BodySink {
    return {
      onChunk(chunk) {
        watcher.read(chunk);
        return sink.onChunk(chunk);
      },
      onEnd() {
        watcher.onEnd();
        sink.onEnd();
      },
      onError: (error) => sink.onError(error),
    };
  }

  return {
    flowTo: (sink) => body.flowTo(watching(sink)),
    resume: () => body.resume(),
    destroy: () => body.destroy(),
  };
}
