import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerChat, checkModel, DemoError, demoModel } from './chat.ts';
import { embeddings } from './embeddings.ts';

/** An upstream to try the gateway with, which says that it is one: an echo as a chat, embeddings, and its one model. */
export interface DemoUpstream {
  /** `http://127.0.0.1:<port>/v1` */
  readonly baseUrl: string;
  close(): Promise<void>;
}

/**
 * Starts the demo upstream on a free loopback port.
 * @param options.wordDelay milliseconds between the words of a stream. @default 20
 */
export async function startDemoUpstream({ wordDelay = 20 } = {}): Promise<DemoUpstream> {
  const server = createServer((req, res) => {
    answer(req, res, wordDelay).catch((error) => answerError(res, error));
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

async function answer(req: IncomingMessage, res: ServerResponse, wordDelay: number): Promise<void> {
  const target = `${req.method} ${new URL(req.url ?? '/', 'http://demo').pathname}`;
  if (target === 'POST /v1/chat/completions') {
    const body = await readJson(req);
    const { completion, chunks } = answerChat(body);
    return body.stream === true ? answerStream(res, chunks, wordDelay) : answerJson(res, 200, completion);
  }
  if (target === 'POST /v1/embeddings') return answerJson(res, 200, embeddings(await readJson(req)));
  if (target === 'GET /v1/models') return answerJson(res, 200, { object: 'list', data: [demoModel] });
  const [, model] = /^GET \/v1\/models\/([^/]+)$/.exec(target) ?? [];
  if (model === undefined) {
    const problem = `The demo has no ${target}, only chat completions, embeddings and models`;
    throw new DemoError('not_found', `${problem}; set UPSTREAM_BASE_URL to an upstream that has it`);
  }
  checkModel(decodeURIComponent(model));
  answerJson(res, 200, demoModel);
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

function answerJson(res: ServerResponse, status: number, body: object): void {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** Words are sent one at a time, so that a newcomer sees the stream. */
async function answerStream(res: ServerResponse, chunks: readonly object[], wordDelay: number): Promise<void> {
  res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  for (const event of [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]']) {
    if (res.destroyed) return;
    res.write(`data: ${event}\n\n`);
    await sleep(wordDelay);
  }
  res.end();
}

function answerError(res: ServerResponse, error: unknown): void {
  if (res.headersSent) return void res.destroy();
  const demoError = error instanceof DemoError ? error : new DemoError('invalid_value', 'The request cannot be read');
  answerJson(res, demoError.status, demoError.toBody());
}
