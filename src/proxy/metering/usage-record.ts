import type { ApiRequest } from '../../http/operation.ts';
import { newId } from '../../ids.ts';
import type { CallEnding, ModelCall, OpenUsage, RequestedOutput, UsageRecord } from '../../options/options.ts';
import type { Used } from './final-usage.ts';

/** Where usage records go. The relay waits for none of it. */
export interface UsageRecorder {
  /** A call was sent to an upstream. */
  opened(usage: OpenUsage): void;
  /** The call was answered, and the answer has ended. */
  closed(record: UsageRecord): void;
  /** The call was not answered, or was answered with an error: there is nothing to record. */
  dropped(id: string): void;
}

/** The record of a call that was sent to an upstream. */
export function openRecord(
  { principal, requestId }: Pick<ApiRequest, 'principal' | 'requestId'>,
  { endpoint, model = null }: { readonly endpoint: ModelCall['endpoint']; readonly model: string | undefined | null },
  {
    upstream,
    inputTokens,
    output: { seconds = 0, characters = 0 },
    startedAt,
  }: { upstream: string; inputTokens: number; output: RequestedOutput; startedAt: number },
): OpenUsage {
  return {
    id: newId('use', startedAt),
    requestId,
    userId: principal.userId,
    keyId: principal.keyId ?? null,
    endpoint,
    model,
    upstream,
    inputTokens,
    seconds,
    characters,
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
  return {
    id: open.id,
    requestId: open.requestId,
    userId: open.userId,
    keyId: open.keyId,
    endpoint: open.endpoint,
    model: open.model,
    upstream: end.upstream,
    inputTokens: used.inputTokens,
    cachedInputTokens: used.cachedInputTokens,
    outputTokens: used.outputTokens,
    reasoningTokens: used.reasoningTokens,
    images: used.images,
    seconds: used.seconds,
    characters: used.characters,
    estimated: used.estimated,
    ending: end.ending,
    startedAt: open.startedAt,
    durationMs: end.durationMs,
    firstByteMs: end.firstByteMs,
  };
}
