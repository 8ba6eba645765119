import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { speech, transcription } from './audio.ts';
import { chatChunks, chatCompletion } from './chat.ts';
import { completion, completionChunks } from './completions.ts';
import { embeddings } from './embeddings.ts';
import { images } from './images.ts';
import { checkModel, DemoError, demoModel } from './model.ts';
import { moderations } from './moderations.ts';

/** An upstream to try the gateway with, which says that it is one. */
export interface DemoUpstream {
  /** `http://127.0.0.1:<port>/v1` */
  readonly baseUrl: string;
  close(): Promise<void>;
}

// biome-ignore lint/suspicious/noExplicitAny: JSON from outside; each answer checks what it reads
type Body = any;

function answerJson(res: ServerResponse, status: number, body: object): void {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** Words are sent one at a time, so that a newcomer sees the stream. */
async function answerStream(res: ServerResponse, chunks: readonly object[], wordDelay: number): Promise<void> {
  res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  for (const chunk of chunks) {
    if (res.destroyed) return;
    res.write(`data: ${JSON.stringify(chunk)}\n\n`);
    await sleep(wordDelay);
  }
  res.end('data: [DONE]\n\n');
}

async function readBody(req: IncomingMessage): Promise<Body> {
  try {
    const body = JSON.parse(await text(req));
    if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
  } catch {
    // said below, as for JSON that is no object
  }
  throw new DemoError(400, 'invalid_json', 'The body must be a JSON object');
}

async function answer(req: IncomingMessage, res: ServerResponse, wordDelay: number): Promise<void> {
  const { pathname } = new URL(req.url ?? '/', 'http://demo');
  const route = `${req.method} ${pathname}`;
  if (route === 'GET /v1/models') return answerJson(res, 200, { object: 'list', data: [demoModel] });
  if (route.startsWith('GET /v1/models/')) {
    checkModel(decodeURIComponent(pathname.slice('/v1/models/'.length)));
    return answerJson(res, 200, demoModel);
  }
  if (route === 'POST /v1/embeddings') return answerJson(res, 200, embeddings(await readBody(req)));
  if (route === 'POST /v1/images/generations') return answerJson(res, 200, images(await readBody(req)));
  if (route === 'POST /v1/moderations') return answerJson(res, 200, moderations(await readBody(req)));
  if (route === 'POST /v1/audio/speech') {
    checkModel((await readBody(req)).model);
    return void res.writeHead(200, { 'content-type': 'audio/wav' }).end(speech());
  }
  if (route === 'POST /v1/audio/transcriptions' || route === 'POST /v1/audio/translations') {
    req.resume();
    return answerJson(res, 200, transcription);
  }
  if (route === 'POST /v1/completions') {
    const body = await readBody(req);
    if (body.stream === true) return answerStream(res, completionChunks(body), wordDelay);
    return answerJson(res, 200, completion(body));
  }
  if (route !== 'POST /v1/chat/completions') throw new DemoError(404, 'not_found', `There is no ${route} here`);
  const body = await readBody(req);
  if (body.stream === true) return answerStream(res, chatChunks(body), wordDelay);
  return answerJson(res, 200, chatCompletion(body));
}

function answerError(res: ServerResponse, error: unknown): void {
  if (res.headersSent) return void res.destroy();
  const known = error instanceof DemoError ? error : new DemoError(400, 'invalid_value', 'The request cannot be read');
  answerJson(res, known.status, known.toBody());
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
