import { randomUUID } from 'node:crypto';
import { checkModel, DemoError, demoModel } from './model.ts';

interface ChatRequest {
  readonly model?: unknown;
  readonly messages?: unknown;
  readonly stream?: unknown;
  readonly stream_options?: { readonly include_usage?: unknown };
  readonly max_tokens?: unknown;
  readonly max_completion_tokens?: unknown;
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

/** The demo's answer to one request, in the pieces that a stream sends. */
interface Echo {
  readonly id: string;
  readonly created: number;
  readonly pieces: readonly string[];
  readonly finishReason: 'stop' | 'length';
  readonly usage: Usage;
}

/** Text of a message: a string, or the text parts of a list of parts. */
function textOf(message: unknown): string {
  const content = (message as { content?: unknown } | null)?.content;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part: { text?: unknown }) => (typeof part?.text === 'string' ? part.text : '')).join(' ');
}

/** A token here is a word with the space before it: a rough measure, the same for prompt and answer. */
export function wordsOf(text: string): string[] {
  return text.match(/\s*\S+/g) ?? [];
}

/** What the demo says to a text, in words. */
export function echoOf(said: string): string[] {
  return wordsOf(`This is ${demoModel.id}, an echo and no language model. You said: ${said}`);
}

function lastUserText(messages: readonly unknown[]): string {
  const fromUser = messages.filter((message) => (message as { role?: unknown } | null)?.role === 'user');
  return textOf(fromUser.at(-1) ?? messages.at(-1));
}

function echo(request: ChatRequest): Echo {
  checkModel(request.model);
  if (!Array.isArray(request.messages) || request.messages.length === 0) {
    throw new DemoError(400, 'invalid_value', "'messages' must be a list with at least one message", 'messages');
  }
  const said = lastUserText(request.messages);
  const words = echoOf(said);
  const limit = Number(request.max_completion_tokens ?? request.max_tokens ?? Number.POSITIVE_INFINITY);
  const pieces = words.slice(0, limit);
  const prompt_tokens = request.messages.reduce((sum: number, message) => sum + wordsOf(textOf(message)).length, 0);
  return {
    id: `chatcmpl-${randomUUID()}`,
    created: Math.floor(Date.now() / 1000),
    pieces,
    finishReason: pieces.length < words.length ? 'length' : 'stop',
    usage: { prompt_tokens, completion_tokens: pieces.length, total_tokens: prompt_tokens + pieces.length },
  };
}

/**
 * The answer to a chat request that does not stream.
 * @throws DemoError for another model or no messages
 */
export function chatCompletion(request: ChatRequest): object {
  const { id, created, pieces, finishReason, usage } = echo(request);
  const message = { role: 'assistant', content: pieces.join(''), refusal: null };
  return {
    id,
    object: 'chat.completion',
    created,
    model: demoModel.id,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason }],
    usage,
  };
}

/**
 * The chunks that answer a chat request that streams; the one with the usage only if it was asked for.
 * @throws DemoError for another model or no messages
 */
export function chatChunks(request: ChatRequest): object[] {
  const { id, created, pieces, finishReason, usage } = echo(request);
  const withUsage = request.stream_options?.include_usage === true;
  const common = { id, object: 'chat.completion.chunk', created, model: demoModel.id };
  const chunk = (delta: object, finish_reason: string | null) => ({
    ...common,
    choices: [{ index: 0, delta, finish_reason }],
    ...(withUsage && { usage: null }),
  });
  return [
    chunk({ role: 'assistant', content: '' }, null),
    ...pieces.map((content) => chunk({ content }, null)),
    chunk({}, finishReason),
    ...(withUsage ? [{ ...common, choices: [], usage }] : []),
  ];
}
