import type { ServerResponse } from 'node:http';
import type { CallDeadline } from '../../call-deadline.ts';
import type { Endpoint } from '../../endpoint.ts';
import { setResponseHeaders } from '../../headers.ts';
import type { UsageMeter } from '../../metering/usage-meter.ts';
import type { DecodedResponse } from '../decoded-body.ts';

/** One response, and how it is sent to the client. */
export interface ResponsePlan {
  readonly response: DecodedResponse;
  /** The name of the upstream, if the answer shows it. */
  readonly shownUpstream: string | undefined;
  readonly res: ServerResponse;
  readonly deadline: CallDeadline;
  readonly betweenChunks: number;
  readonly meter: UsageMeter;
  /** What a successful answer is, if not always JSON. */
  readonly answers?: Endpoint['answers'] | undefined;
  /** Whether the client asked for a stream. */
  readonly asksForStream: boolean;
  /** Whether a whole stream ends in `[DONE]`. */
  readonly endsInDone: boolean;
  /**
   * Whether its streams are those of the Responses API: of a response that ends with its stream, of one that is made in the background, or of
   * such a one again, from some event on. @default they are not
   */
  readonly responseStream?: 'whole' | 'background' | 'resumed' | undefined;
  /** Whether the usage chunk at a stream's end is removed, because the client did not ask for it. */
  readonly dropsUsageChunk: boolean;
  /** Whether a whole body may still turn out to be an error: its beginning did not say in time. @default it may not */
  readonly looksForError?: boolean | undefined;
  /** Whether vectors of numbers become base64. */
  readonly repairsVectors: boolean;
}

/** Writes the head of the answer. */
export function writeHead({ response, res, shownUpstream }: ResponsePlan, length?: number | string): void {
  setResponseHeaders(res, response.headers);
  if (shownUpstream !== undefined) res.setHeader('x-gateway-upstream', shownUpstream);
  if (length !== undefined) res.setHeader('content-length', length);
  res.writeHead(response.status);
}
