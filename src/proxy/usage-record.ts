import { newId } from '../ids.ts';
import type { CallEnding, OpenUsage, RequestedOutput, UsageRecord } from '../options/options.ts';
import type { RequestedCall } from './admission.ts';
import type { Endpoint } from './endpoint.ts';
import type { UsageMeter } from './usage-meter.ts';

/** Where usage records go. The relay waits for none of it. */
export interface UsageRecorder {
  /** A call was sent to an upstream. */
  opened(usage: OpenUsage): void;
  /** The call was answered, and the answer has ended. */
  closed(record: UsageRecord): void;
  /** The call was not answered, or was answered with an error: there is nothing to record. */
  dropped(id: string): void;
}

/** The record of a call, before it is sent to an upstream. @param startedAt as `Date.now()` */
export function openRecord(
  { info, estimatedTokens, output }: RequestedCall,
  upstream: string,
  startedAt: number,
): OpenUsage {
  const { requestId, principal, endpoint, model } = info;
  return {
    id: newId('use', startedAt),
    requestId,
    userId: principal.userId,
    keyId: principal.keyId ?? null,
    endpoint,
    model: model ?? null,
    upstream,
    inputTokens: estimatedTokens,
    seconds: output.seconds ?? 0,
    characters: output.characters ?? 0,
    startedAt: new Date(startedAt),
  };
}

/** How a call ended, and when. */
export interface CallEnd {
  readonly upstream: string;
  readonly ending: CallEnding;
  readonly durationMs: number;
  readonly firstByteMs: number;
}

/** The same when it has ended. */
export function closedRecord(open: OpenUsage, used: Used, end: CallEnd): UsageRecord {
  const { id, requestId, userId, keyId, endpoint, model, startedAt } = open;
  return { id, requestId, userId, keyId, endpoint, model, startedAt, ...used, ...end };
}

/** Fewer than in most text, so that the estimate is seldom too low. */
const answerBytesPerToken = 3;
/** How fast a model may write what is not visible yet: reasoning, or an answer that is sent as a whole. */
const unseenTokensPerSecond = 100;

/** What the usage of a call depends on, besides its answer. */
export interface MeteredCall {
  readonly estimatedInput: number;
  readonly output: RequestedOutput;
  readonly ending: CallEnding;
  readonly endpoint: Pick<Endpoint, 'answersImages' | 'answersVectors' | 'unit' | 'isFree'>;
}

type Measured = Pick<
  UsageMeter,
  'reported' | 'bytes' | 'textBytes' | 'images' | 'events' | 'silence' | 'duration' | 'hasFailed'
>;

/** The tokens visible in an answer; a stream has at least one token per event. Bytes of images and vectors say nothing. */
export function tokensSeen({ events, textBytes, bytes }: Pick<Measured, 'events' | 'textBytes' | 'bytes'>): number {
  return Math.max(events, Math.ceil((events > 0 ? textBytes : bytes) / answerBytesPerToken));
}

/**
 * The estimated output of a call whose upstream reported none: what was visible of it; and when the client left, what the model
 * may have written since, within the limit of the request.
 */
function estimateOutput(meter: Measured, { output, ending, endpoint }: MeteredCall): number {
  const { answersImages, answersVectors } = endpoint;
  if (answersVectors) return 0;
  const seenTokens = answersImages ? 0 : tokensSeen(meter);
  if (ending !== 'client_left') return seenTokens;
  const unseenTokens = Math.floor((meter.silence / 1_000) * unseenTokensPerSecond) * output.choices;
  const limit = (output.maxTokens ?? Number.POSITIVE_INFINITY) * output.choices;
  return Math.max(seenTokens, Math.min(seenTokens + unseenTokens, limit));
}

/** The amounts of a record. */
export type Used = Pick<
  UsageRecord,
  | 'inputTokens'
  | 'cachedInputTokens'
  | 'outputTokens'
  | 'reasoningTokens'
  | 'images'
  | 'seconds'
  | 'characters'
  | 'estimated'
>;

const nothing: Used = Object.freeze({
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  images: 0,
  seconds: 0,
  characters: 0,
  estimated: false,
});

/** What a call has used when it has ended. Pure. */
export function finalUsage(meter: Measured, call: MeteredCall): Used {
  const { reported, duration } = meter;
  const { ending, endpoint, output } = call;
  const { answersImages, unit, isFree } = endpoint;
  if (isFree || meter.hasFailed) return nothing;
  // an upstream that works on images finishes them, also when the client has left
  const images = answersImages && ending === 'client_left' ? Math.max(meter.images, output.choices) : meter.images;
  // exact, whatever came of the answer: the whole text was sent up
  const characters = unit === 'characters' ? (output.characters ?? 0) : 0;
  if (reported) return { ...nothing, ...reported, images, characters };
  if (unit === 'characters') return { ...nothing, characters };
  if (unit === 'seconds' && duration !== undefined) return { ...nothing, seconds: duration };
  // images are counted by number; many providers report no tokens for them
  if (images > 0 && ending === 'complete') {
    return { ...nothing, images };
  }
  return {
    ...nothing,
    inputTokens: call.estimatedInput,
    outputTokens: estimateOutput(meter, call),
    images,
    seconds: unit === 'seconds' ? (output.seconds ?? 0) : 0,
    estimated: true,
  };
}
