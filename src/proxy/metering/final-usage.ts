import type { CallEnding, RequestedOutput, UsageRecord } from '../../options/options.ts';
import type { UsageMeter } from './usage-meter.ts';

/** Fewer than most text has, so that what was written is seldom estimated too low. */
const answerBytesPerToken = 3;
/** What a model may write while nothing of it is shown: reasoning, or an answer that is sent as a whole. */
const unseenTokensPerSecond = 100;

/** What a call was, for who says what it has used. */
export interface MeteredCall {
  readonly estimatedInput: number;
  readonly output: RequestedOutput;
  readonly ending: CallEnding;
  readonly answersImages: boolean;
  readonly answersVectors: boolean;
}

type Measured = Pick<UsageMeter, 'reported' | 'bytes' | 'textBytes' | 'images' | 'events' | 'silence'>;

/** What was seen of an answer; a stream has one token an event at least. Bytes of images and vectors say nothing. */
function tokensSeen({ events, textBytes, bytes }: Measured): number {
  return Math.max(events, Math.ceil((events > 0 ? textBytes : bytes) / answerBytesPerToken));
}

/**
 * The output of a call whose upstream did not say: what was seen of it; and where the client left, what may have been written
 * meanwhile that nobody saw, within the limit of the request.
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
  const { ending, answersImages, output } = call;
  // an upstream that was at work on images makes them, whether anybody is there to take them
  const images = answersImages && ending === 'client_left' ? Math.max(meter.images, output.choices) : meter.images;
  if (reported) {
    const { inputTokens, cachedInputTokens, outputTokens } = reported;
    return { inputTokens, cachedInputTokens, outputTokens, images, estimated: false };
  }
  // images are counted, and many providers give them no tokens
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
