import type { CallEnding, OpenUsage, UsageRecord } from '../options.ts';
import type { Gauge } from './gauge.ts';

/** Where the records of answered calls go; nothing here is waited for. */
export interface Metering {
  /** A call was sent to an upstream. */
  opened(usage: OpenUsage): void;
  /** The call was answered, and that has ended. */
  closed(record: UsageRecord): void;
  /** The call was not answered after all, or with an error: there is nothing to record. */
  dropped(id: string): void;
}

/** English text has about four bytes a token. */
const bytesPerToken = 4;

/** What a request has used when nobody says: its bytes, by four. Pure. */
export function estimateInput(requestBytes: number): number {
  return Math.ceil(requestBytes / bytesPerToken);
}

/** What an answer has used when it has ended. Pure. */
export function usedBy(
  { reported, images, events, bytes }: Pick<Gauge, 'reported' | 'bytes' | 'images' | 'events'>,
  estimatedInput: number,
  ending: CallEnding,
): Pick<UsageRecord, 'inputTokens' | 'cachedInputTokens' | 'outputTokens' | 'images' | 'estimated'> {
  if (reported) {
    const { inputTokens, cachedInputTokens, outputTokens } = reported;
    return { inputTokens, cachedInputTokens, outputTokens, images, estimated: false };
  }
  // images are counted, and many providers give them no tokens
  if (images > 0 && ending === 'complete') {
    return { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, images, estimated: false };
  }
  // a stream has about one token an event
  const outputTokens = events > 0 ? events : Math.ceil(bytes / bytesPerToken);
  return {
    inputTokens: estimatedInput,
    cachedInputTokens: 0,
    outputTokens: images > 0 ? 0 : outputTokens,
    images,
    estimated: true,
  };
}
