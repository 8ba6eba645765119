import { demoModel } from './model.ts';

/** The text of a message or item: a string, or the text parts of a list of parts. */
function textOf(message: unknown): string {
  const content = (message as { content?: unknown } | null)?.content;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part: { text?: unknown }) => (typeof part?.text === 'string' ? part.text : '')).join(' ');
}

/** The text of the last message of the user. */
export function lastUserText(messages: readonly unknown[]): string {
  const fromUser = messages.filter((message) => (message as { role?: unknown } | null)?.role === 'user');
  return textOf(fromUser.at(-1) ?? messages.at(-1));
}

/** A token here is a word with the space before it: a rough measure, the same for prompt and answer. */
export function wordsOf(text: string): string[] {
  return text.match(/\s*\S+/g) ?? [];
}

/** The tokens of messages or items. */
export function countTokens(messages: readonly unknown[]): number {
  return messages.reduce((sum: number, message) => sum + wordsOf(textOf(message)).length, 0);
}

/** What the demo says to a text, in words. */
export function echoOf(said: string): string[] {
  return wordsOf(`This is ${demoModel.id}, an echo and no language model. You said: ${said}`);
}
