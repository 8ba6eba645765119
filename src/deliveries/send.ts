import type { createHttpClient, HttpResponse } from '../outbound/client.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { readAnswer } from './answer.ts';
import type { SendResult } from './outcome.ts';

type HttpClient = ReturnType<typeof createHttpClient>;

/** The HTTP clients of deliveries. Both guard the address they connect to. */
export interface DeliveryClients {
  /** Keeps its connections. */
  readonly pooled: HttpClient;
  /** Opens a connection for every request. */
  readonly fresh: HttpClient;
}

/** One POST. */
export interface Outgoing {
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
}

/** Makes one POST; whatever comes of it is a result, never a rejection. */
export type Send = (outgoing: Outgoing) => Promise<SendResult>;

/** A kept connection that the receiver had closed just then: it has seen nothing, so this is no attempt yet. */
function wasStale(error: unknown): boolean {
  return error instanceof OutboundError && error.code === 'reset' && error.reusedSocket;
}

/**
 * Sends deliveries. One deadline covers connecting, the answer's head and the part of its body that is read.
 * @param timeout milliseconds for the whole attempt
 */
export function createSend(clients: DeliveryClients, timeout: number): Send {
  async function post({ url, headers, body }: Outgoing, signal: AbortSignal): Promise<HttpResponse> {
    const config = { headers, signal };
    try {
      return await clients.pooled.post(url, body, config);
    } catch (error) {
      if (!wasStale(error)) throw error;
      return clients.fresh.post(url, body, config);
    }
  }

  return async function send(outgoing) {
    const started = performance.now();
    const elapsed = () => Math.round(performance.now() - started);
    try {
      const { status, data } = await post(outgoing, AbortSignal.timeout(timeout));
      const answer = await readAnswer(data);
      return { status, ...answer, durationMs: elapsed() };
    } catch (error) {
      const code = error instanceof OutboundError ? error.code : 'unknown';
      return { error: code, response: '', durationMs: elapsed() };
    }
  };
}
