import { randomUUID } from 'node:crypto';
import { checkModel, countTokens, DemoError, demoModel, echoOf, lastUserText, wordsOf } from './chat.ts';

/** An id as OpenAI makes them: `resp_…`. */
function newId(prefix: string): string {
  return `${prefix}_${randomUUID().replaceAll('-', '')}`;
}

/** An input or output item of the Responses API. */
export interface Item {
  readonly id: string;
  readonly type: string;
}

interface Message extends Item {
  readonly content: readonly { readonly text: string }[];
}

/** The parts of an object of the Responses API that the demo reads again. */
export interface ResponseObject {
  readonly id: string;
  readonly status: string;
  readonly output: readonly Message[];
}

interface GivenItem {
  readonly id?: string | null;
  readonly type?: string;
  readonly role?: unknown;
  readonly content?: unknown;
}

function toItem(given: GivenItem | null): Item {
  if (typeof given !== 'object' || given === null) {
    throw new DemoError('invalid_value', "'input' must be a text or a list of items", 'input');
  }
  const { type = 'message', role, content } = given;
  if (type !== 'message') return { ...given, id: given.id ?? newId('item'), type };
  const part = { type: role === 'assistant' ? 'output_text' : 'input_text', text: content };
  const parts = typeof content === 'string' ? [part] : content;
  return { status: 'completed', ...given, id: given.id ?? newId('msg'), type, content: parts } as Item;
}

/**
 * The items of an input: a text, or a list of items.
 * @throws DemoError for anything else
 */
export function toItems(input: unknown): Item[] {
  if (typeof input === 'string') return [toItem({ role: 'user', content: input })];
  return Array.isArray(input) ? input.map(toItem) : [toItem(null)];
}

export interface ResponseRequest {
  readonly model?: unknown;
  readonly input?: unknown;
  readonly previous_response_id?: string | null;
  readonly conversation?: string | { readonly id: string } | null;
  readonly instructions?: unknown;
  readonly metadata?: unknown;
  readonly max_output_tokens?: number | null;
  readonly background?: boolean | null;
  readonly store?: boolean | null;
}

/** What it said, as an item: an echo with as many words as it may have. */
function toMessage(said: string, limit: number) {
  const words = echoOf(said);
  const text = words.slice(0, limit).join('');
  const status = words.length > limit ? 'incomplete' : 'completed';
  const content = [{ type: 'output_text', text, annotations: [], logprobs: [] }];
  return { id: newId('msg'), type: 'message', status, role: 'assistant', content };
}

function conversationIdOf({ conversation }: ResponseRequest): string | undefined {
  return typeof conversation === 'string' ? conversation : conversation?.id;
}

/**
 * The answer to one request of the Responses API.
 * @param before the turns that it continues. @default none
 * @throws DemoError for another model or an invalid input
 */
export function answerResponse(request: ResponseRequest, before: readonly Item[] = []): ResponseObject {
  checkModel(request.model);
  const newItems = toItems(request.input ?? []);
  const message = toMessage(lastUserText(newItems), request.max_output_tokens ?? Number.POSITIVE_INFINITY);
  const tokens = [countTokens([...before, ...newItems]), countTokens([message])] as const;
  const isCut = message.status === 'incomplete';
  const conversationId = conversationIdOf(request);
  const now = Math.floor(Date.now() / 1000);
  const response = {
    id: newId('resp'),
    object: 'response',
    created_at: now,
    status: message.status,
    background: request.background ?? false,
    completed_at: isCut ? null : now,
    error: null,
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    metadata: request.metadata ?? {},
    model: demoModel.id,
    output: [message],
    parallel_tool_calls: true,
    previous_response_id: request.previous_response_id ?? null,
    conversation: conversationId === undefined ? null : { id: conversationId },
    store: request.store ?? true,
    temperature: 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    truncation: 'disabled',
    usage: {
      input_tokens: tokens[0],
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: tokens[1],
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: tokens[0] + tokens[1],
    },
  };
  return response;
}

/** A response as it is before there is anything in it. */
function unfinished(response: ResponseObject, status: 'queued' | 'in_progress'): ResponseObject {
  const nothing = { completed_at: null, incomplete_details: null, output: [], usage: null };
  return { ...response, status, ...nothing };
}

/** The events of a stream of a response, a word each. */
export function responseEvents(response: ResponseObject): object[] {
  const item = response.output[0] as Message;
  const [part] = item.content as [{ text: string }];
  const place = { output_index: 0, content_index: 0, item_id: item.id };
  const started = unfinished(response, 'in_progress');
  const events = [
    { type: 'response.created', response: started },
    { type: 'response.in_progress', response: started },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress', content: [] } },
    { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
    ...wordsOf(part.text).map((delta) => ({ type: 'response.output_text.delta', ...place, delta, logprobs: [] })),
    { type: 'response.output_text.done', ...place, text: part.text, logprobs: [] },
    { type: 'response.content_part.done', ...place, part },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: `response.${response.status}`, response },
  ];
  return events.map((event, sequence_number) => ({ ...event, sequence_number }));
}
