import { randomUUID } from 'node:crypto';
import { countTokens, echoOf, lastUserText } from './echo.ts';
import { checkModel, DemoError, demoModel } from './model.ts';

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
