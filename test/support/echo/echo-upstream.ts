import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { answerChat, checkModel, DemoError, demoModel } from '../../../src/cli/demo/chat.ts';
import { embeddings } from '../../../src/cli/demo/embeddings.ts';
import { images } from '../../../src/cli/demo/images.ts';
import { responseEvents, toItems } from '../../../src/cli/demo/responses.ts';
import {
  answerJson,
  answerStream,
  type DemoUpstream,
  doneEvent,
  readJson,
  serveUpstream,
  toEvent,
} from '../../../src/cli/demo/server.ts';
import { completion, completionChunks, moderations, speech, transcription } from './media.ts';
import {
  addItems,
  countInput,
  createConversation,
  createDemoStore,
  createResponse,
  type DemoStore,
  itemOf,
  pageOf,
  removeItem,
  storeChat,
  updateChat,
  updateConversation,
} from './stored.ts';

/**
 * Starts the demo upstream with all that OpenAI's API has beside chats, embeddings and models: it keeps responses, conversations and
 * chats, and answers images, speech and texts.
 * @param options.wordDelay milliseconds between the words of a stream. @default 20
 */
export function startEchoUpstream({ wordDelay = 20 } = {}): Promise<DemoUpstream> {
  const store = createDemoStore();
  return serveUpstream((req, res) => answer(req, res, store, wordDelay));
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

async function send(res: ServerResponse, answer: DemoAnswer, wordDelay: number): Promise<void> {
  if ('json' in answer) return answerJson(res, 200, answer.json);
  if ('audio' in answer) return void res.writeHead(200, { 'content-type': 'audio/wav' }).end(answer.audio);
  if ('chunks' in answer) return answerStream(res, [...answer.chunks.map(toEvent), doneEvent], wordDelay);
  return answerStream(res, answer.events.map(toEvent), wordDelay);
}

async function readForm(req: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const headers = { 'content-type': req.headers['content-type'] ?? '' };
  try {
    return Object.fromEntries(await new Response(await buffer(req), { headers }).formData());
  } catch {
    throw new DemoError('invalid_form', 'The body must be a form, multipart/form-data');
  }
}

/** JSON from outside; each answer checks what it reads. */
type Body = Readonly<Record<string, unknown>>;

/** The parts of a request that its route needs. */
interface DemoRequest {
  /** What matches `*` in the route. */
  readonly params: readonly string[];
  readonly query: URLSearchParams;
  readonly store: DemoStore;
  /** The body as JSON. @throws DemoError if it is no object */
  json(): Promise<Body>;
  /** The fields of a form, files too. */
  form(): Promise<Body>;
  /** Either, as its media type says. */
  fields(): Promise<Body>;
}

type DemoAnswer =
  | { readonly json: object }
  | { readonly audio: Buffer }
  /** A stream that ends with `[DONE]`. */
  | { readonly chunks: readonly object[] }
  /** A stream with the names of its events. */
  | { readonly events: readonly object[] };

type Handler = (request: DemoRequest) => DemoAnswer | Promise<DemoAnswer>;

const chats: Record<string, Handler> = {
  async 'POST /chat/completions'({ json, store }) {
    const body = await json();
    const answer = answerChat(body);
    storeChat(body, answer, store);
    return body.stream === true ? { chunks: answer.chunks } : { json: answer.completion };
  },
  'GET /chat/completions': ({ store, query }) => ({
    json: pageOf(
      store.chats.all().map(({ completion }) => completion),
      query,
      'asc',
    ),
  }),
  'GET /chat/completions/*': (request) => ({ json: request.store.chats.get(firstId(request)).completion }),
  async 'POST /chat/completions/*'(request) {
    return { json: updateChat(firstId(request), (await request.json()).metadata, request.store) };
  },
  'DELETE /chat/completions/*'(request) {
    request.store.chats.delete(firstId(request));
    return deleted(firstId(request), 'chat.completion.deleted');
  },
  'GET /chat/completions/*/messages': (request) => ({
    json: pageOf(request.store.chats.get(firstId(request)).messages, request.query, 'asc'),
  }),
};

const responses: Record<string, Handler> = {
  async 'POST /responses'({ json, store }) {
    const body = await json();
    const response = createResponse(body, store);
    const events = responseEvents(response);
    if (body.stream === true) return { events };
    const [created] = events as [{ readonly response: object }];
    return { json: body.background === true ? { ...created.response, status: 'queued' } : response };
  },
  'POST /responses/input_tokens': async ({ json, store }) => ({ json: countInput(await json(), store) }),
  'GET /responses/*'(request) {
    const { response } = request.store.responses.get(firstId(request));
    if (request.query.get('stream') !== 'true') return { json: response };
    const from = Number(request.query.get('starting_after') ?? -1) + 1;
    return { events: responseEvents(response).slice(from) };
  },
  'DELETE /responses/*'(request) {
    request.store.responses.delete(firstId(request));
    return deleted(firstId(request), 'response');
  },
  'GET /responses/*/input_items': (request) => ({
    json: pageOf(request.store.responses.get(firstId(request)).input, request.query, 'desc'),
  }),
};

const conversations: Record<string, Handler> = {
  'POST /conversations': async ({ json, store }) => ({ json: createConversation(await json(), store) }),
  'GET /conversations/*': (request) => ({ json: request.store.conversations.get(firstId(request)).conversation }),
  async 'POST /conversations/*'(request) {
    return { json: updateConversation(firstId(request), (await request.json()).metadata, request.store) };
  },
  'DELETE /conversations/*'(request) {
    request.store.conversations.delete(firstId(request));
    return deleted(firstId(request), 'conversation.deleted');
  },
  'GET /conversations/*/items': (request) => ({
    json: pageOf(request.store.conversations.get(firstId(request)).items, request.query, 'desc'),
  }),
  async 'POST /conversations/*/items'(request) {
    const added = toItems((await request.json()).items);
    addItems(request.store, firstId(request), added);
    return { json: pageOf(added, new URLSearchParams('limit=100'), 'asc') };
  },
  'GET /conversations/*/items/*': ({ store, params: [id = '', item = ''] }) => ({ json: itemOf(store, id, item) }),
  'DELETE /conversations/*/items/*': ({ store, params: [id = '', item = ''] }) => ({
    json: removeItem(store, id, item),
  }),
};

const others: Record<string, Handler> = {
  'GET /models': () => ({ json: { object: 'list', data: [demoModel] } }),
  'GET /models/*'(request) {
    checkModel(firstId(request));
    return { json: demoModel };
  },
  async 'POST /completions'({ json }) {
    const body = await json();
    return body.stream === true ? { chunks: completionChunks(body) } : { json: completion(body) };
  },
  'POST /embeddings': async ({ json }) => ({ json: embeddings(await json()) }),
  'POST /images/generations': async ({ json }) => ({ json: images(await json()) }),
  'POST /images/edits': async ({ fields }) => ({ json: images(await fields()) }),
  'POST /images/variations': async ({ form }) => ({ json: images({ prompt: 'a variation', ...(await form()) }) }),
  'POST /moderations': async ({ json }) => ({ json: moderations(await json()) }),
  async 'POST /audio/speech'({ json }) {
    checkModel((await json()).model);
    return { audio: speech() };
  },
  async 'POST /audio/transcriptions'({ form }) {
    checkModel((await form()).model);
    return { json: transcription };
  },
  async 'POST /audio/translations'({ form }) {
    checkModel((await form()).model);
    return { json: transcription };
  },
};

const routes = Object.entries({ ...chats, ...responses, ...conversations, ...others }).map(([route, handle]) => ({
  pattern: new RegExp(`^${route.replaceAll('*', '([^/]+)').replace(' ', ' /v1')}$`),
  handle,
}));

/** Finds what answers a request such as `GET /v1/models/demo-echo`. */
function findRoute(target: string): { handle: Handler; params: string[] } | undefined {
  for (const { pattern, handle } of routes) {
    const match = pattern.exec(target);
    if (match) return { handle, params: match.slice(1).map(decodeURIComponent) };
  }
  return undefined;
}

const firstId = ({ params }: DemoRequest) => params[0] as string;

function deleted(id: string, object: string): DemoAnswer {
  return { json: { id, object, deleted: true } };
}
