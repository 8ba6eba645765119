import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { buffer } from 'node:stream/consumers';

/** A request as it goes over the wire. */
export interface WireRequest {
  readonly method: string;
  /** The request target: a path, or an absolute URL. */
  readonly target: string;
  /** Names and values in turn, Host included. */
  readonly headers: readonly string[];
  readonly body?: string | Buffer;
}

/** An answer as it came over the wire. */
export interface WireAnswer {
  readonly status: number;
  /** In the order of the wire, names in lower case. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
  /** Whether the server asked for the body of a request that announced one by `Expect: 100-continue`. */
  readonly continued: boolean;
}

function inPairs(raw: readonly string[]): [name: string, value: string][] {
  return Array.from({ length: raw.length / 2 }, (_, i) => [String(raw[2 * i]).toLowerCase(), String(raw[2 * i + 1])]);
}

/** A client that sends one request after the other to a port of this machine, on one connection while the server keeps it. */
export class WireClient {
  readonly #port: number;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(port: number) {
    this.#port = port;
  }

  /** Sends a request. One that expects `100-continue` sends its body once the server asks for it. */
  async send({ method, target, headers, body }: WireRequest): Promise<WireAnswer> {
    const sent = request({
      host: '127.0.0.1',
      port: this.#port,
      agent: this.#agent,
      method,
      path: target,
      headers: [...headers],
    });
    let continued = false;
    const waits = headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'expect');
    if (waits) {
      sent.on('continue', () => {
        continued = true;
        sent.end(body);
      });
      sent.flushHeaders();
    } else {
      sent.end(body);
    }
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    const received = await buffer(answer);
    // a body that nobody asked for is never sent
    if (waits && !continued) sent.destroy();
    return { status: answer.statusCode ?? 0, headers: inPairs(answer.rawHeaders), body: received, continued };
  }

  close(): void {
    this.#agent.destroy();
  }
}
