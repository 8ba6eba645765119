import type { UsageRecord } from '../../options/options.ts';
import type { Admission } from '../../proxy/admission.ts';

/**
 * The admissions of calls whose responses run on: what is reserved of credits stays reserved in the process that made the call, until
 * the response is counted or the process ends.
 */
export class HeldAdmissions {
  readonly #byResponse = new Map<string, readonly Admission[]>();

  add(id: string, admissions: readonly Admission[]): void {
    this.#byResponse.set(id, admissions);
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
    const admissions = this.#byResponse.get(id) ?? [];
    this.#byResponse.delete(id);
    return admissions;
  }
}
