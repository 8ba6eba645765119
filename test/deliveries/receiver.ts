import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { keepConnections, listenOn } from '../support/listen.ts';

/** One request as it arrived. */
export interface Received {
  /** `performance.now()` when its head had come. */
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** How one request is answered: a status, or whatever is done to the response. */
export type Answer = number | ((res: ServerResponse) => void);

export const hang: Answer = () => {};
export const reset: Answer = (res) => res.socket?.resetAndDestroy();

/** A loopback receiver that answers by a script; its last line goes on for ever. */
export async function startReceiver(...script: Answer[]) {
  const received: Received[] = [];
  const waiting = new Set<() => void>();
  let script_ = script.length > 0 ? script : [200];

  const server = createServer(async (req, res) => {
    const at = performance.now();
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk);
    received.push({
      at,
      method: req.method ?? '',
      path: req.url ?? '',
      headers: req.headers,
      body: Buffer.concat(chunks),
    });
    for (const look of waiting) look();
    const answer = script_[Math.min(received.length, script_.length) - 1] as Answer;
    if (typeof answer === 'function') answer(res);
    else res.writeHead(answer, { 'content-type': 'text/plain' }).end(`answered ${answer}`);
  });
  keepConnections(server);
  const port = await listenOn(server);

  return {
    received,
    url: `http://127.0.0.1:${port}/hook`,
    answers(...next: Answer[]) {
      script_ = next;
    },
    /** Resolves when so many requests have come. */
    async count(n: number, within = 150_000): Promise<Received[]> {
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => {
          reject(new Error(`only ${received.length} of ${n} requests came within ${within} ms`));
        }, within);
        const look = () => {
          if (received.length < n) return;
          clearTimeout(timer);
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      });
      return received;
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export type TestReceiver = Awaited<ReturnType<typeof startReceiver>>;
