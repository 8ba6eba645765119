import type { HttpClient } from '../outbound/client.ts';
import type { OutboundRequest, OutboundResponse } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { splitUrl } from '../outbound/url.ts';
import { readAnswer } from './answer.ts';
import { Deadline } from './deadline.ts';
import type { SendResult } from './outcome.ts';

/** The HTTP clients of deliveries. Both guard the address they connect to. */
export interface DeliveryClients {
  /** Keeps its connections. */
  readonly pooled: HttpClient;
  /** Opens a connection for every request. */
  readonly fresh: HttpClient;
}

/** One POST. */
export interface Outgoing {
  /** Whose attempt it is, for those who wait for it. */
  readonly deliveryId?: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
  /** Asked right before the first byte is written, when there is a connection. @default it may */
  readonly maySend?: () => boolean;
}

/**
 * Makes one POST; whatever comes of it is a result.
 * @throws NotSentError when nothing was sent, and nothing may be any more
 */
export type Send = (outgoing: Outgoing) => Promise<SendResult>;

/** There was no request: the right to make it was lost before its first byte. */
export class NotSentError extends Error {
  override readonly name = 'NotSentError';

  constructor() {
    super('the lease on the attempt lapsed before the request could be written');
  }
}

/**
 * A kept connection that the receiver had closed before it could take the request: it has seen nothing, so this is no attempt
 * yet. One that is closed later may have been closed by a receiver that has read the request: that is a failed attempt.
 */
function wasStale(error: unknown): boolean {
  return error instanceof OutboundError && error.code === 'reset' && error.reusedSocket && error.isUnsent;
}

function toRequest({ url, headers, body }: Outgoing, signal: Deadline, onSend: () => void): OutboundRequest {
  const lines: string[] = [];
  for (const name in headers) lines.push(name, headers[name] as string);
  const { origin, path } = splitUrl(url);
  return { method: 'POST', origin, path, headers: lines, body, signal, onSend };
}

/**
 * Sends deliveries. One deadline covers connecting, the answer's head and the part of its body that is read.
 * @param timeout milliseconds for the whole attempt
 */
export function createSend(clients: DeliveryClients, timeout: number): Send {
  async function post(request: OutboundRequest): Promise<OutboundResponse> {
    try {
      return await clients.pooled.send(request);
    } catch (error) {
      if (!wasStale(error)) throw error;
      return clients.fresh.send(request);
    }
  }

  return async function send(outgoing) {
    const { maySend = () => true } = outgoing;
    const started = performance.now();
    let isWritten = false;
    const onSend = () => {
      if (!maySend()) throw new NotSentError();
      isWritten = true;
    };
    const elapsed = () => Math.round(performance.now() - started);
    const deadline = new Deadline(timeout);
    try {
      const { status, data } = await post(toRequest(outgoing, deadline, onSend));
      const answer = await readAnswer(data);
      return { status, ...answer, durationMs: elapsed() };
    } catch (error) {
      // whoever has the attempt now makes it: this one does not count, even if no connection could be made
      if (!isWritten && !maySend()) throw new NotSentError();
      const code = error instanceof OutboundError ? error.code : 'unknown';
      return { error: code, response: '', durationMs: elapsed() };
    } finally {
      deadline.clear();
    }
  };
}
