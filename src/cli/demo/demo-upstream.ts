import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { DemoError } from './model.ts';
import { type DemoAnswer, findRoute } from './routes.ts';
import { createDemoStore, type DemoStore } from './stored/objects.ts';

/** An upstream to try the gateway with, which says that it is one. */
export interface DemoUpstream {
  /** `http://127.0.0.1:<port>/v1` */
  readonly baseUrl: string;
  close(): Promise<void>;
}

function answerJson(res: ServerResponse, status: number, body: object): void {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** Words are sent one at a time, so that a newcomer sees the stream. */
async function answerStream(res: ServerResponse, events: readonly string[], wordDelay: number): Promise<void> {
  res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  for (const event of events) {
    if (res.destroyed) return;
    res.write(event);
    await sleep(wordDelay);
  }
  res.end();
}

async function readJson(req: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  try {
    const body = JSON.parse(await text(req));
    if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
  } catch {
    // said below, as for JSON that is no object
  }
  throw new DemoError('invalid_json', 'The body must be a JSON object');
}

async function readForm(req: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const headers = { 'content-type': req.headers['content-type'] ?? '' };
  try {
    return Object.fromEntries(await new Response(await buffer(req), { headers }).formData());
  } catch {
    throw new DemoError('invalid_form', 'The body must be a form, multipart/form-data');
  }
}

async function send(res: ServerResponse, answer: DemoAnswer, wordDelay: number): Promise<void> {
  if ('json' in answer) return answerJson(res, 200, answer.json);
  if ('audio' in answer) return void res.writeHead(200, { 'content-type': 'audio/wav' }).end(answer.audio);
  const line = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
  if ('chunks' in answer) return answerStream(res, [...answer.chunks.map(line), 'data: [DONE]\n\n'], wordDelay);
  const named = answer.events.map((event) => `event: ${(event as { type?: string }).type}\n${line(event)}`);
  return answerStream(res, named, wordDelay);
}

async function answer(req: IncomingMessage, res: ServerResponse, store: DemoStore, wordDelay: number): Promise<void> {
  const { pathname, searchParams: query } = new URL(req.url ?? '/', 'http://demo');
  const target = `${req.method} ${pathname}`;
  const route = findRoute(target);
  if (!route) throw new DemoError('not_found', `There is no ${target} here`);
  const { handle, params } = route;
  const json = () => readJson(req);
  const form = () => readForm(req);
  const isForm = req.headers['content-type']?.startsWith('multipart/');
  const request = { params, query, store, json, form, fields: isForm ? form : json };
  await send(res, await handle(request), wordDelay);
}

function answerError(res: ServerResponse, error: unknown): void {
  if (res.headersSent) return void res.destroy();
  const demoError = error instanceof DemoError ? error : new DemoError('invalid_value', 'The request cannot be read');
  answerJson(res, demoError.status, demoError.toBody());
}

/**
 * Starts the demo upstream on a free loopback port.
 * @param options.wordDelay milliseconds between the words of a stream. @default 20
 */
export async function startDemoUpstream({ wordDelay = 20 } = {}): Promise<DemoUpstream> {
  const store = createDemoStore();
  const server = createServer((req, res) => {
    answer(req, res, store, wordDelay).catch((error) => answerError(res, error));
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
