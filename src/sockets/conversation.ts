import type { UsageRecord } from '../options/options.ts';
import { estimateInput, promptBytesPerToken } from '../proxy/model-body.ts';
import { textBytes } from '../proxy/usage-meter.ts';
import type { ClientEvent, UpstreamEvent } from './events.ts';
import { tokensPerSecond } from './transcriptions.ts';

/** Nothing of these is in the text of a prompt. */
const noAttachments = { listedTokens: 0 };

/**
 * How much the next response of a realtime session reads: the upstream keeps the conversation, and reads the whole of it for each response. What the upstream
 * says of a response is exact; what has come since then is estimated.
 */
export class Conversation {
  /** Instructions and tools. Tokens. */
  #session = 0;
  /** Items and answers. Tokens. */
  #items = 0;

  /** The estimated input of a response that begins now. Tokens. */
  get tokens(): number {
    return Math.max(0, Math.ceil(this.#session + this.#items));
  }

  /** Sound has become a part of it. */
  heard(seconds: number): void {
    this.#items += seconds * tokensPerSecond;
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
