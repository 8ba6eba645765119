import type { ServerResponse } from 'node:http';
import type { HttpResponse } from '../outbound/client.ts';
import type { OutboundError } from '../outbound/outbound-error.ts';
import type { BodySink } from '../outbound/response-body.ts';
import { errorEvent, failureOf } from './failure.ts';
import { type HeaderValues, headersDown, isEventStream } from './headers.ts';

/** How an answer ends that broke off after its first byte. */
type BreakOff = (res: ServerResponse, error: OutboundError) => void;

const endWithErrorEvent: BreakOff = (res, error) => res.end(`\n\n${errorEvent(failureOf(error))}`);
/** Half a JSON body must not look whole: the connection is cut, so that the client sees a failed transfer. */
const cut: BreakOff = (res) => res.destroy();

function sinkInto(res: ServerResponse, breakOff: BreakOff, done: () => void): BodySink {
  return {
    onChunk: (chunk) => res.write(chunk),
    onEnd() {
      res.end();
      done();
    },
    onError(error) {
      if (!res.destroyed) breakOff(res, error);
      done();
    },
  };
}

/** Sends an upstream's answer down: its status, the headers a caller may see, its bytes as they come. */
export function forward({ status, headers, data }: HttpResponse, res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const upstreamHeaders = headers as HeaderValues;
    const streaming = isEventStream(upstreamHeaders);
    res.writeHead(status, headersDown(upstreamHeaders));
    res.on('drain', () => data.resume());
    data.flowTo(sinkInto(res, streaming ? endWithErrorEvent : cut, resolve));
    if (streaming) res.flushHeaders();
  });
}
