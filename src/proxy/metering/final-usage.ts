import type { CallEnding, RequestedOutput, UsageRecord } from '../../options/options.ts';
import type { UsageMeter } from './usage-meter.ts';

/** Fewer than in most text, so that the estimate is seldom too low. */
const answerBytesPerToken = 3;
/** How fast a model may write what is not visible yet: reasoning, or an answer that is sent as a whole. */
const unseenTokensPerSecond = 100;

/** What the usage of a call depends on, besides its answer. */
export interface MeteredCall {
  readonly estimatedInput: number;
  readonly output: RequestedOutput;
  readonly ending: CallEnding;
  readonly answersImages: boolean;
  readonly answersVectors: boolean;
  readonly isFree?: boolean | undefined;
}

type Measured = Pick<UsageMeter, 'reported' | 'bytes' | 'textBytes' | 'images' | 'events' | 'silence'>;

/** The tokens visible in an answer; a stream has at least one token per event. Bytes of images and vectors say nothing. */
function tokensSeen({ events, textBytes, bytes }: Measured): number {
  return Math.max(events, Math.ceil((events > 0 ? textBytes : bytes) / answerBytesPerToken));
}

/**
 * The estimated output of a call whose upstream reported none: what was visible of it; and when the client left, what the model
 * may have written since, within the limit of the request.
 */
function estimateOutput(meter: Measured, { output, ending, answersImages, answersVectors }: MeteredCall): number {
  if (answersVectors) return 0;
  const seen = answersImages ? 0 : tokensSeen(meter);
  if (ending !== 'client_left') return seen;
  const unseen = Math.floor((meter.silence / 1_000) * unseenTokensPerSecond) * output.choices;
  const limit = (output.maxTokens ?? Number.POSITIVE_INFINITY) * output.choices;
  return Math.max(seen, Math.min(seen + unseen, limit));
}

/** What a call has used when it has ended. Pure. */
export function finalUsage(
  meter: Measured,
  call: MeteredCall,
): Pick<UsageRecord, 'inputTokens' | 'cachedInputTokens' | 'outputTokens' | 'images' | 'estimated'> {
  const { reported } = meter;
  if (call.isFree) return { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, images: 0, estimated: false };
  const { ending, answersImages, output } = call;
  // an upstream that works on images finishes them, also when the client has left
  const images = answersImages && ending === 'client_left' ? Math.max(meter.images, output.choices) : meter.images;
  if (reported) {
    const { inputTokens, cachedInputTokens, outputTokens } = reported;
    return { inputTokens, cachedInputTokens, outputTokens, images, estimated: false };
  }
  // images are counted by number; many providers report no tokens for them
  if (images > 0 && ending === 'complete') {
    return { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, images, estimated: false };
  }
  return {
    inputTokens: call.estimatedInput,
    cachedInputTokens: 0,
    outputTokens: estimateOutput(meter, call),
    images,
    estimated: true,
  };
}
