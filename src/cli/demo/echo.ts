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

/** No answer is longer. Words. */
const longestEcho = 10_000;

/** The words of a text, each with the space before it. */
function* eachWord(text: string): Generator<string> {
  let end = 0;
  // a pattern that begins with the space would take the square of a long run of spaces
  for (const { 0: word, index } of text.matchAll(/\S+/g)) {
    yield text.slice(end, index + word.length);
    end = index + word.length;
  }
}

/** A token here is a word with the space before it: a rough measure, the same for prompt and answer. No more than an answer has. */
export function wordsOf(text: string): string[] {
  const words: string[] = [];
  for (const word of eachWord(text)) if (words.push(word) === longestEcho) break;
  return words;
}

function countWords(text: string): number {
  let count = 0;
  for (const _ of eachWord(text)) count += 1;
  return count;
}

/** The tokens of messages or items. */
export function countTokens(messages: readonly unknown[]): number {
  return messages.reduce((sum: number, message) => sum + countWords(textOf(message)), 0);
}

/** What the demo says to a text, in words. */
export function echoOf(said: string): string[] {
  return wordsOf(`This is ${demoModel.id}, an echo and no language model. You said: ${said}`);
}
