import type { HttpClient } from '../../outbound/client.ts';
import type { OutboundResponse } from '../../outbound/exchange.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import type { SendResult } from '../attempt/outcome.ts';
import { Deadline } from './deadline.ts';
import { readResponse } from './read-response.ts';
import type { SignedRequest, SignRequest } from './sign-request.ts';

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
  /** Without its signatures. */
  readonly headers: Record<string, string>;
  readonly body: Buffer;
  readonly sign: SignRequest;
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

/**
 * Sends deliveries. One deadline covers connecting, the answer's head and the part of its body that is read.
 * @param timeout milliseconds for the whole attempt
 */
export function createSend(clients: DeliveryClients, timeout: number): Send {
  async function post(request: SignedRequest): Promise<OutboundResponse> {
    try {
      return await clients.pooled.request(request);
    } catch (error) {
      if (!wasStale(error)) throw error;
      return clients.fresh.request(request);
    }
  }

  return async function send(outgoing) {
    const { url, headers, body: data, sign, maySend = () => true } = outgoing;
    const started = performance.now();
    let isWritten = false;
    const onSend = () => {
      if (!maySend()) throw new NotSentError();
      isWritten = true;
    };
    const elapsed = () => Math.round(performance.now() - started);
    const deadline = new Deadline(timeout);
    try {
      const response = await post({ method: 'POST', url, headers, data, sign, signal: deadline, onSend });
      const answer = await readResponse(response.data);
      return { status: response.status, ...answer, durationMs: elapsed() };
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
