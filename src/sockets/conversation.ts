import type { RequestedOutput, UsageRecord } from '../options/options.ts';
import { oneAnswer } from '../proxy/admission.ts';
import { countIn, estimateInput, promptBytesPerToken } from '../proxy/model-body.ts';
import { textBytes } from '../proxy/usage-meter.ts';
import { type ClientEvent, limitNames, type UpstreamEvent } from './events.ts';
import { fieldOf, tokensPerSecond } from './sound.ts';

/** Nothing of these is in the text of a prompt. */
const noAttachments = { listedTokens: 0 };

/**
 * The output that a session or a response asks for; `undefined` where it does not say. Of several limits the largest counts: which of them an upstream follows
 * is its own affair.
 * @param path where the fields stand in an event of the client's
 */
export function outputOf(path: 'session' | 'response', read: (name: string) => unknown): RequestedOutput | undefined {
  const limits = limitNames
    .map((name) => ({ limitField: `${path}.${name}`, value: read(name) ?? null }))
    .filter(({ value }) => value !== null)
    // `inf` limits nothing
    .map(({ limitField, value }) => ({
      limitField,
      maxTokens: typeof value === 'number' ? countIn(limitField, value) : 0,
    }))
    .sort((a, b) => b.maxTokens - a.maxTokens);
  const [most] = limits;
  if (!most) return undefined;
  return most.maxTokens > 0 ? { ...oneAnswer, ...most } : oneAnswer;
}

/**
 * How much the next response of a realtime session reads, and may write: the upstream keeps the conversation, and reads the whole of it for each response. What the upstream
 * says of a response is exact; what has come since then is estimated.
 */
export class Conversation {
  /** Instructions and tools. Tokens. */
  #session = 0;
  /** Items and answers. Tokens. */
  #items = 0;
  /** What the upstream says that responses may write. */
  #output = oneAnswer;

  /** The estimated input of a response that begins now. Tokens. */
  get tokens(): number {
    return Math.max(0, Math.ceil(this.#session + this.#items));
  }

  /** The output of a response that says nothing of it. */
  get output(): RequestedOutput {
    return this.#output;
  }

  /** Sound has become a part of it. */
  heard(seconds: number): void {
    this.#items += seconds * tokensPerSecond.heard;
  }

  /** An event of the client's goes up. */
  sent({ type, rawBody }: ClientEvent): void {
    if (type === 'conversation.item.create') this.#items += estimateInput(rawBody, noAttachments);
    // until the upstream says what the session is; a change may leave most of it out
    if (type === 'session.update') this.#session = Math.max(this.#session, estimateInput(rawBody, noAttachments));
  }

  /** The upstream says what the session is. */
  configured({ session }: UpstreamEvent): void {
    const { instructions, tools } = (session ?? {}) as { readonly instructions?: unknown; readonly tools?: unknown };
    this.#session = Math.ceil(textBytes([instructions, tools]) / promptBytesPerToken);
    this.#output = outputOf('session', (name) => fieldOf(session, name)) ?? this.#output;
  }

  /**
   * A response of the conversation has ended.
   * @param estimatedInput what was expected of it when it began. Tokens
   */
  answered(estimatedInput: number, { inputTokens, outputTokens, estimated }: UsageRecord): void {
    // one that has failed says nothing about the conversation
    if (inputTokens === 0) return;
    this.#items += outputTokens + (estimated ? 0 : inputTokens - estimatedInput);
  }
}
