import type { IncomingMessage, ServerResponse } from 'node:http';
import { answerChat, checkModel, DemoError, demoModel } from './chat.ts';
import { embeddings } from './embeddings.ts';
import { images } from './images.ts';
import { answerMessage, countMessageTokens, messageEvents } from './messages.ts';
import { rerank } from './rerank.ts';
import { answerResponse, responseEvents } from './responses.ts';
import { answerJson, answerStream, type DemoUpstream, doneEvent, readJson, serveUpstream, toEvent } from './server.ts';

/**
 * Starts an upstream to try the gateway with, which says that it is one: an echo as chats, responses and messages of Anthropic's API, embeddings,
 * reranks, small pictures, and its one model. It keeps nothing.
 * @param options.wordDelay milliseconds between the words of a stream. @default 20
 */
export function startDemoUpstream({ wordDelay = 20 } = {}): Promise<DemoUpstream> {
  return serveUpstream((req, res) => answer(req, res, wordDelay));
}

type Request = Awaited<ReturnType<typeof readJson>>;

/** What is answered: JSON, or the events of a stream. */
type Answer = object | readonly string[];

const posts: Readonly<Record<string, (request: Request) => Answer>> = {
  '/v1/chat/completions'(request) {
    const { completion, chunks } = answerChat(request);
    return request.stream === true ? [...chunks.map(toEvent), doneEvent] : completion;
  },
  '/v1/responses'(request) {
    const response = answerResponse(request);
    return request.stream === true ? responseEvents(response).map(toEvent) : response;
  },
  '/v1/messages'(request) {
    const message = answerMessage(request);
    return request.stream === true ? messageEvents(message).map(toEvent) : message;
  },
  '/v1/messages/count_tokens': countMessageTokens,
  '/v1/embeddings': embeddings,
  '/v1/rerank': rerank,
  '/v1/images/generations': images,
};

async function answer(req: IncomingMessage, res: ServerResponse, wordDelay: number): Promise<void> {
  const { pathname } = new URL(req.url ?? '/', 'http://demo');
  const post = req.method === 'POST' && Object.hasOwn(posts, pathname) ? posts[pathname] : undefined;
  const answered = post ? post(await readJson(req)) : modelsAt(`${req.method} ${pathname}`);
  return Array.isArray(answered) ? answerStream(res, answered, wordDelay) : answerJson(res, 200, answered);
}

/** @throws DemoError 404 for another model, and for what the demo does not have */
function modelsAt(target: string): object {
  if (target === 'GET /v1/models') return { object: 'list', data: [demoModel] };
  const [, model] = /^GET \/v1\/models\/([^/]+)$/.exec(target) ?? [];
  if (model === undefined) {
    const problem = `The demo has no ${target}, only chat completions, responses, messages, embeddings, reranks, images and models`;
    throw new DemoError('not_found', `${problem}; set UPSTREAM_BASE_URL to an upstream that has it`);
  }
  checkModel(decodeURIComponent(model));
  return demoModel;
}
