import { speech, transcription } from './audio.ts';
import { answerChat } from './chat.ts';
import { completion, completionChunks } from './completions.ts';
import { embeddings } from './embeddings.ts';
import { images } from './images.ts';
import { checkModel, demoModel } from './model.ts';
import { moderations } from './moderations.ts';
import { storeChat, updateChat } from './stored/chats.ts';
import { addItems, createConversation, itemOf, removeItem, updateConversation } from './stored/conversations.ts';
import { toItems } from './stored/items.ts';
import { type DemoStore, pageOf } from './stored/objects.ts';
import { countInput, createResponse, responseEvents, unfinished } from './stored/responses.ts';

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

export type DemoAnswer =
  | { readonly json: object }
  | { readonly audio: Buffer }
  /** A stream that ends with `[DONE]`. */
  | { readonly chunks: readonly object[] }
  /** A stream with the names of its events. */
  | { readonly events: readonly object[] };

type Handler = (request: DemoRequest) => DemoAnswer | Promise<DemoAnswer>;

const firstId = ({ params }: DemoRequest) => params[0] as string;

function deleted(id: string, object: string): DemoAnswer {
  return { json: { id, object, deleted: true } };
}

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
    if (body.stream === true) return { events: responseEvents(response) };
    return { json: body.background === true ? unfinished(response, 'queued') : response };
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
export function findRoute(target: string): { handle: Handler; params: string[] } | undefined {
  for (const { pattern, handle } of routes) {
    const match = pattern.exec(target);
    if (match) return { handle, params: match.slice(1).map(decodeURIComponent) };
  }
  return undefined;
}
