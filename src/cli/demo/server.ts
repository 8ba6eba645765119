import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { DemoError } from './chat.ts';

/** An upstream on a loopback port. */
export interface DemoUpstream {
  /** `http://127.0.0.1:<port>/v1` */
  readonly baseUrl: string;
  close(): Promise<void>;
}

/** Serves an upstream on a free loopback port. @param answer what it rejects with is answered as an error */
export async function serveUpstream(
  answer: (req: IncomingMessage, res: ServerResponse) => Promise<void>,
): Promise<DemoUpstream> {
  const server = createServer((req, res) => {
    answer(req, res).catch((error) => answerError(res, error));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** @throws DemoError `invalid_json` for anything but an object */
export async function readJson(req: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  try {
    const body = JSON.parse(await text(req));
    if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
  } catch {
    // said below, as for JSON that is no object
  }
  throw new DemoError('invalid_json', 'The body must be a JSON object');
}

export function answerJson(res: ServerResponse, status: number, body: object): void {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** One event of a stream, named by the `type` of its data if that has one. */
export function toEvent(data: object): string {
  const name = 'type' in data ? `event: ${data.type}\n` : '';
  return `${name}data: ${JSON.stringify(data)}\n\n`;
}

/** The event that ends a stream of chunks. */
export const doneEvent = 'data: [DONE]\n\n';

/**
 * Words are sent one at a time, so that a newcomer sees the stream.
 * @param wordDelay milliseconds between them
 */
export async function answerStream(res: ServerResponse, events: readonly string[], wordDelay: number): Promise<void> {
  res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  for (const event of events) {
    if (res.destroyed) return;
    res.write(event);
    await sleep(wordDelay);
  }
  res.end();
}

function answerError(res: ServerResponse, error: unknown): void {
  if (res.headersSent) return void res.destroy();
  const demoError = error instanceof DemoError ? error : new DemoError('invalid_value', 'The request cannot be read');
  const isMessage = /^\/v1\/messages(?:[/?]|$)/.test(res.req.url ?? '');
  answerJson(res, demoError.status, isMessage ? demoError.toMessageBody() : demoError.toBody());
}
