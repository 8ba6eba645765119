import type { UsageRecord } from '../../options/options.ts';
import type { Admission } from '../../proxy/admission.ts';

/** What a process holds of a response whose call it has made. */
interface HeldResponse {
  readonly userId: string;
  readonly admissions: readonly Admission[];
  /** The output tokens that its stream has shown by now. @default none */
  readonly tokensStreamed: (() => number) | undefined;
}

/**
 * The admissions of calls whose responses run on: what is reserved of credits stays reserved in the process that made the call, until
 * the response is counted or the process ends.
 */
export class HeldAdmissions {
  readonly #byResponse = new Map<string, HeldResponse>();
  readonly #byAccount = new Map<string, number>();

  /** Holds them until the response is counted. Those of a request that was repeated, and got the same response, are not needed. */
  add(id: string, response: HeldResponse): void {
    const { userId, admissions } = response;
    if (this.#byResponse.has(id)) {
      for (const admission of admissions) admission.dropped();
      return;
    }
    this.#byResponse.set(id, response);
    this.#byAccount.set(userId, this.countOf(userId) + 1);
  }

  /** Uncounted responses of the account whose calls this process made. */
  countOf(userId: string): number {
    return this.#byAccount.get(userId) ?? 0;
  }

  /** The record; if it is estimated, with no fewer output tokens than this process has streamed. */
  withStreamed(id: string, record: UsageRecord): UsageRecord {
    const streamed = this.#byResponse.get(id)?.tokensStreamed?.() ?? 0;
    return record.estimated && streamed > record.outputTokens ? { ...record, outputTokens: streamed } : record;
  }

  ids(): string[] {
    return [...this.#byResponse.keys()];
  }

  /** This process has written the usage. */
  closed(id: string, record: UsageRecord): void {
    for (const admission of this.#take(id)) admission.closed(record);
  }

  /** Another process has written it. */
  release(id: string): void {
    for (const admission of this.#take(id)) admission.dropped();
  }

  releaseAll(): void {
    for (const id of this.ids()) this.release(id);
  }

  #take(id: string): readonly Admission[] {
    const held = this.#byResponse.get(id);
    if (!held) return [];
    this.#byResponse.delete(id);
    const count = this.countOf(held.userId) - 1;
    if (count > 0) this.#byAccount.set(held.userId, count);
    else this.#byAccount.delete(held.userId);
    return held.admissions;
  }
}
