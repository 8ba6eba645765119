import type { ApiRequest } from '../http/operation.ts';
import type { CallEnding, ModelCall, StoredUsage } from '../options/options.ts';
import type { Admission } from '../proxy/admission.ts';
import { closedRecord, noUsage, openRecord, type UsageRecorder } from '../proxy/usage-meter.ts';
import { kinds, madeBy, type StoredCall } from './kinds.ts';

type Body = Pick<ApiRequest, 'upload' | 'form' | 'rawBody'>;

/** A call that makes nothing and has no tokens. */
export const noTokens = { estimatedTokens: 0, output: { choices: 1, maxTokens: 0 } };

/**
 * What a call about an object moves and makes, as far as its request says; `undefined` where it moves no file and makes nothing that can have a
 * price. Pure.
 */
export function expectedUse(call: StoredCall, { upload, form, rawBody }: Body): StoredUsage | undefined {
  const kind = kinds[call.kind].pricedAs;
  if (!kind) return undefined;
  const made = madeBy(call) === kind ? 1 : 0;
  if (made === 0 && !upload && !form && !call.answersBytes) return undefined;
  // JSON says what is to be made, and is no file; an upload of unknown length is admitted where anything is left
  const uploadedBytes = upload ? (upload.length ?? 1) : form ? rawBody.length : 0;
  return { kind, made, uploadedBytes, downloadedBytes: 0 };
}

/** Meters one call that moves a file, or makes an object, and charges for it when it has ended. */
export class StoredMeter {
  /** Sent down to the client. */
  downloadedBytes = 0;
  ending: CallEnding = 'complete';
  readonly #info: ModelCall;
  readonly #expected: StoredUsage | undefined;
  readonly #upload: Body['upload'];
  readonly #admissions: readonly Admission[];
  readonly #startedAt = Date.now();
  /** Where the call was done, and when its answer began. */
  #done: { readonly upstream: string; readonly at: number } | undefined;
  #isOwned = false;

  /** @param admissions of the call, which this closes */
  constructor(info: ModelCall, expected: StoredUsage | undefined, body: Body, admissions: readonly Admission[]) {
    this.#info = info;
    this.#expected = expected;
    this.#upload = body.upload;
    this.#admissions = admissions;
  }

  /** Whether a file goes up. */
  get isUpload(): boolean {
    return this.#expected !== undefined && this.#expected.uploadedBytes > 0;
  }

  /** The upstream answers that it has done what was asked. */
  done(upstream: string): void {
    this.#done ??= { upstream, at: Date.now() };
  }

  /** The same, and the account owns what came of it, whatever becomes of the answer. */
  owned(upstream: string): void {
    this.done(upstream);
    this.#isOwned = true;
  }

  /** The call has ended: closes its admissions, and records what it has used. Nothing is recorded of a call that was not done. */
  settle(recorder: Pick<UsageRecorder, 'closed'>): void {
    const record = this.#record();
    // charge first: a record that cannot be stored gives its charge back
    for (const admission of this.#admissions) {
      if (record) admission.closed(record);
      else admission.dropped();
    }
    if (record) recorder.closed(record);
  }

  #record() {
    if (!this.#expected || !this.#done) return undefined;
    const { upstream, at } = this.#done;
    const { downloadedBytes } = this;
    const uploadedBytes = this.#upload?.received ?? this.#expected.uploadedBytes;
    const stored = { ...this.#expected, uploadedBytes, downloadedBytes };
    if (stored.made + uploadedBytes + downloadedBytes === 0) return undefined;
    // the client is told that it failed, and sends it again
    if (uploadedBytes > 0 && this.ending === 'upstream_failed' && !this.#isOwned) return undefined;
    const startedAt = this.#startedAt;
    const open = openRecord({ info: this.#info, ...noTokens }, upstream, startedAt);
    const durations = { durationMs: Date.now() - startedAt, firstByteMs: at - startedAt };
    return closedRecord(open, { ...noUsage, stored }, { upstream, ending: this.ending, ...durations });
  }
}
