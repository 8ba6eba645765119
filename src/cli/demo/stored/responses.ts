import { countTokens, echoOf, lastUserText, wordsOf } from '../echo.ts';
import { checkModel, demoModel } from '../model.ts';
import { addItems } from './conversations.ts';
import { toItems } from './items.ts';
import { type DemoStore, type Item, type Message, newId, type ResponseObject } from './objects.ts';

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

/** The turns that a request continues. @throws DemoError 404 for a response or conversation that does not exist */
function turnsBefore(request: ResponseRequest, { responses, conversations }: DemoStore): readonly Item[] {
  const conversationId = conversationIdOf(request);
  if (conversationId !== undefined) return conversations.get(conversationId).items;
  if (!request.previous_response_id) return [];
  const { input, response } = responses.get(request.previous_response_id);
  return [...input, ...response.output];
}

/** @throws DemoError as {@link createResponse} */
export function countInput(request: ResponseRequest, store: DemoStore): object {
  checkModel(request.model);
  const input = [...turnsBefore(request, store), ...toItems(request.input ?? [])];
  return { object: 'response.input_tokens', input_tokens: countTokens(input) };
}

/**
 * Makes a response, and keeps it unless `store` is false.
 * @throws DemoError for another model, an invalid input, and a response or conversation to continue that does not exist
 */
export function createResponse(request: ResponseRequest, store: DemoStore): ResponseObject {
  checkModel(request.model);
  const newItems = toItems(request.input ?? []);
  const input = [...turnsBefore(request, store), ...newItems];
  const message = toMessage(lastUserText(newItems), request.max_output_tokens ?? Number.POSITIVE_INFINITY);
  const tokens = [countTokens(input), countTokens([message])] as const;
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
  if (conversationId !== undefined) addItems(store, conversationId, [...newItems, message]);
  if (request.store !== false) store.responses.set(response.id, { response, input });
  return response;
}

/** A response as it is before there is anything in it. */
export function unfinished(response: ResponseObject, status: 'queued' | 'in_progress'): ResponseObject {
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
