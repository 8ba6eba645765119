import type { IncomingMessage, ServerResponse } from 'node:http';
import { answerChat, checkModel, DemoError, demoModel } from './chat.ts';
import { embeddings } from './embeddings.ts';
import { answerJson, answerStream, type DemoUpstream, doneEvent, readJson, serveUpstream, toEvent } from './server.ts';

/**
 * Starts an upstream to try the gateway with, which says that it is one: an echo as a chat, embeddings, and its one model.
 * @param options.wordDelay milliseconds between the words of a stream. @default 20
 */
export function startDemoUpstream({ wordDelay = 20 } = {}): Promise<DemoUpstream> {
  return serveUpstream((req, res) => answer(req, res, wordDelay));
}

async function answer(req: IncomingMessage, res: ServerResponse, wordDelay: number): Promise<void> {
  const target = `${req.method} ${new URL(req.url ?? '/', 'http://demo').pathname}`;
  if (target === 'POST /v1/chat/completions') {
    const body = await readJson(req);
    const { completion, chunks } = answerChat(body);
    if (body.stream !== true) return answerJson(res, 200, completion);
    return answerStream(res, [...chunks.map(toEvent), doneEvent], wordDelay);
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
