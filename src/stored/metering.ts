import type { ApiRequest } from '../http/operation.ts';
import type { CallEnding, ModelCall, StoredUsage, UsageRecord } from '../options/options.ts';
import type { RequestedCall } from '../proxy/admission.ts';
import { closedRecord, noUsage, openRecord } from '../proxy/usage-meter.ts';
import { kinds, madeBy, type StoredCall } from './kinds.ts';

type Body = Pick<ApiRequest, 'bodyStream' | 'form' | 'rawBody'>;

/**
 * What a call about an object moves and makes, as far as its request says; `undefined` where it moves no file and makes nothing that can have a
 * price.
 */
function expectedUse(
  call: StoredCall,
  { bodyStream, form, rawBody }: Body,
  maxFileBytes: number,
): StoredUsage | undefined {
  const kind = kinds[call.kind].pricedAs;
  if (!kind) return undefined;
  const made = madeBy(call) === kind ? 1 : 0;
  if (made === 0 && !bodyStream && !form && call.answers !== 'file') return undefined;
  // JSON says what is to be made, and is no file; an upload that does not say how long it is may be as long as any
  const longest = Math.min(maxFileBytes, Number.MAX_SAFE_INTEGER);
  const uploadedBytes = bodyStream ? (bodyStream.length ?? longest) : form ? rawBody.length : 0;
  return { kind, made, uploadedBytes, downloadedBytes: 0 };
}

/** Such a call, as admission checks see it: it has no tokens. */
export function requestedStored(call: StoredCall, info: ModelCall, body: Body, maxFileBytes: number): RequestedCall {
  const stored = expectedUse(call, body, maxFileBytes);
  const lengthField = body.bodyStream && body.bodyStream.length === undefined ? 'content-length' : undefined;
  return { info, estimatedTokens: 0, output: { choices: 1, maxTokens: 0, stored, lengthField } };
}

/** Meters one call that moves a file, or makes an object. */
export class StoredMeter {
  /** Sent down to the client. */
  downloadedBytes = 0;
  ending: CallEnding = 'complete';
  /** Whether an upstream may have got the request. */
  isSent = false;
  readonly #requested: RequestedCall;
  readonly #expected: StoredUsage | undefined;
  readonly #bodyStream: Body['bodyStream'];
  readonly #startedAt = Date.now();
  /** Where the call was done, and when its answer began. */
  #done: { readonly upstream: string; readonly at: number; readonly isOwned: boolean } | undefined;

  /** @param requested by {@link requestedStored}, once it is admitted */
  constructor(requested: RequestedCall, { bodyStream }: Pick<Body, 'bodyStream'>) {
    this.#requested = requested;
    this.#expected = requested.output.stored;
    this.#bodyStream = bodyStream;
  }

  /** Whether a file goes up. */
  get isUploading(): boolean {
    return this.#expected !== undefined && this.#expected.uploadedBytes > 0;
  }

  /** The upstream answers that it has done what was asked. @param isOwned whether the account owns what came of it, whatever becomes of the answer */
  done(upstream: string, isOwned: boolean): void {
    this.#done = { upstream, at: Date.now(), isOwned };
  }

  /** What the call has used, when it has ended; `undefined` where it was not done, or has moved and made nothing. */
  record(): UsageRecord | undefined {
    if (!this.#expected || !this.#done) return undefined;
    const { upstream, at, isOwned } = this.#done;
    const { downloadedBytes } = this;
    const uploadedBytes = this.#bodyStream?.received ?? this.#expected.uploadedBytes;
    const stored = { ...this.#expected, uploadedBytes, downloadedBytes };
    if (stored.made + uploadedBytes + downloadedBytes === 0) return undefined;
    // the client is told that it failed, and sends it again
    if (uploadedBytes > 0 && this.ending === 'upstream_failed' && !isOwned) return undefined;
    const startedAt = this.#startedAt;
    const open = openRecord(this.#requested, upstream, startedAt);
    const durations = { durationMs: Date.now() - startedAt, firstByteMs: at - startedAt };
    return closedRecord(open, { ...noUsage, stored }, { upstream, ending: this.ending, ...durations });
  }
}
