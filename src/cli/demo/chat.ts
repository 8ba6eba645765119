import { randomUUID } from 'node:crypto';

/** The one model of the demo upstream. Its name says what it does. */
export const demoModel = { id: 'demo-echo', object: 'model', created: 1_700_000_000, owned_by: 'demo' } as const;

/** @throws DemoError 404 for any model but the one there is */
export function checkModel(model: unknown): void {
  if (model === demoModel.id) return;
  const message = `The model '${String(model)}' does not exist here: this demo upstream has only '${demoModel.id}'`;
  throw new DemoError('model_not_found', message, 'model');
}

const statusOf = {
  invalid_value: 400,
  invalid_json: 400,
  invalid_form: 400,
  not_found: 404,
  model_not_found: 404,
} as const;

/** An error in OpenAI's shape, as an upstream answers it. */
export class DemoError extends Error {
  readonly status: number;
  readonly code: string;
  readonly param: string | null;

  constructor(code: keyof typeof statusOf, message: string, param: string | null = null) {
    super(message);
    this.status = statusOf[code];
    this.code = code;
    this.param = param;
  }

  toBody(): object {
    return { error: { message: this.message, type: 'invalid_request_error', param: this.param, code: this.code } };
  }

  /** The same in Anthropic's shape. */
  toMessageBody(): object {
    const type = this.status === 404 ? 'not_found_error' : 'invalid_request_error';
    return { type: 'error', error: { type, message: this.message } };
  }
}

export interface ChatRequest {
  readonly model?: unknown;
  readonly messages?: unknown;
  readonly stream_options?: { readonly include_usage?: unknown };
  readonly max_tokens?: unknown;
  readonly max_completion_tokens?: unknown;
  readonly metadata?: unknown;
}

/** The answer to one chat request, whole and as the chunks of a stream. */
export interface ChatAnswer {
  readonly completion: { readonly id: string };
  /** The one with the usage is there only if it was asked for. */
  readonly chunks: readonly object[];
}

/** @throws DemoError for another model or no messages */
export function answerChat(request: ChatRequest): ChatAnswer {
  checkModel(request.model);
  const { messages } = request;
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new DemoError('invalid_value', "'messages' must be a list with at least one message", 'messages');
  }
  const words = echoOf(lastUserText(messages));
  const limit = Number(request.max_completion_tokens ?? request.max_tokens ?? Number.POSITIVE_INFINITY);
  const pieces = words.slice(0, limit);
  const finish_reason = pieces.length < words.length ? 'length' : 'stop';
  const prompt_tokens = countTokens(messages);
  const usage = { prompt_tokens, completion_tokens: pieces.length, total_tokens: prompt_tokens + pieces.length };

  const id = `chatcmpl-${randomUUID()}`;
  const common = { created: Math.floor(Date.now() / 1000), model: demoModel.id };
  const message = { role: 'assistant', content: pieces.join(''), refusal: null };
  const metadata = request.metadata === undefined ? {} : { metadata: request.metadata };
  const choices = [{ index: 0, message, logprobs: null, finish_reason }];

  const withUsage = request.stream_options?.include_usage === true;
  const ofChunk = { id, object: 'chat.completion.chunk', ...common };
  const chunk = (delta: object, reason: string | null) => ({
    ...ofChunk,
    choices: [{ index: 0, delta, finish_reason: reason }],
    ...(withUsage && { usage: null }),
  });
  const completion = { id, object: 'chat.completion', ...common, choices, usage, ...metadata };
  return {
    completion,
    chunks: [
      chunk({ role: 'assistant', content: '' }, null),
      ...pieces.map((content) => chunk({ content }, null)),
      chunk({}, finish_reason),
      ...(withUsage ? [{ ...ofChunk, choices: [], usage }] : []),
    ],
  };
}

/** No answer is longer. Words. */
const longestEcho = 10_000;

/** What the demo says to a text, in words. */
export function echoOf(said: string): string[] {
  return wordsOf(`This is ${demoModel.id}, an echo and no language model. You said: ${said}`);
}

/** A token here is a word with the space before it: a rough measure, the same for prompt and answer. No more than an answer has. */
export function wordsOf(text: string): string[] {
  const words: string[] = [];
  for (const word of eachWord(text)) if (words.push(word) === longestEcho) break;
  return words;
}

/** The words of a text, each with the space before it. */
function* eachWord(text: string): Generator<string> {
  let end = 0;
  // a pattern that begins with the space would take the square of a long run of spaces
  for (const { 0: word, index } of text.matchAll(/\S+/g)) {
    yield text.slice(end, index + word.length);
    end = index + word.length;
  }
}

export function countTokens(messages: readonly unknown[]): number {
  return messages.reduce((sum: number, message) => sum + countWords(textOf(message)), 0);
}

export function countWords(text: string): number {
  let count = 0;
  for (const _ of eachWord(text)) count += 1;
  return count;
}

export function lastUserText(messages: readonly unknown[]): string {
  const fromUser = messages.filter((message) => (message as { role?: unknown } | null)?.role === 'user');
  return textOf(fromUser.at(-1) ?? messages.at(-1));
}

/** The text of a message or item: a string, or the text parts of a list of parts. */
function textOf(message: unknown): string {
  const content = (message as { content?: unknown } | null)?.content;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part: { text?: unknown }) => (typeof part?.text === 'string' ? part.text : '')).join(' ');
}
