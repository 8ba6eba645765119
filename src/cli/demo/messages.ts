import { randomUUID } from 'node:crypto';
import { checkModel, countTokens, DemoError, demoModel, echoOf, lastUserText, wordsOf } from './chat.ts';

interface MessageRequest {
  readonly model?: unknown;
  readonly system?: unknown;
  readonly messages?: unknown;
  readonly max_tokens?: unknown;
}

/** A message of Anthropic's API, as far as the demo reads it again. */
interface Message {
  readonly content: readonly { readonly type: 'text'; readonly text: string }[];
  readonly stop_reason: string;
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
}

/** @throws DemoError for another model or no messages */
function messagesOf({ model, messages }: MessageRequest): readonly unknown[] {
  checkModel(model);
  if (Array.isArray(messages) && messages.length > 0) return messages;
  throw new DemoError('invalid_value', "'messages' must be a list with at least one message", 'messages');
}

/** How many tokens a request has. @throws DemoError for another model or no messages */
export function countMessageTokens(request: MessageRequest): { readonly input_tokens: number } {
  const messages = messagesOf(request);
  return { input_tokens: countTokens([{ content: request.system }, ...messages]) };
}

/** @throws DemoError for another model, no messages or no limit */
export function answerMessage(request: MessageRequest): Message {
  const { input_tokens } = countMessageTokens(request);
  const limit = request.max_tokens;
  if (!Number.isSafeInteger(limit) || Number(limit) < 1) {
    throw new DemoError('invalid_value', "'max_tokens' must be a whole number, 1 or more", 'max_tokens');
  }
  const words = echoOf(lastUserText(messagesOf(request)));
  const pieces = words.slice(0, Number(limit));
  return {
    ...{ id: `msg_${randomUUID().replaceAll('-', '')}`, type: 'message', role: 'assistant', model: demoModel.id },
    content: [{ type: 'text', text: pieces.join('') }],
    stop_reason: pieces.length < words.length ? 'max_tokens' : 'end_turn',
    ...{ stop_sequence: null },
    usage: { input_tokens, output_tokens: pieces.length },
  };
}

/** The events of a stream of a message, one for each word. */
export function messageEvents(message: Message): object[] {
  const { content, stop_reason, usage } = message;
  const text = content.map((part) => part.text).join('');
  const begun = { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } };
  return [
    { type: 'message_start', message: begun },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    ...wordsOf(text).map((word) => ({
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'text_delta', text: word },
    })),
    { type: 'content_block_stop', index: 0 },
    {
      type: 'message_delta',
      delta: { stop_reason, stop_sequence: null },
      usage: { output_tokens: usage.output_tokens },
    },
    { type: 'message_stop' },
  ];
}
