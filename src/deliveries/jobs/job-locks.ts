import { objectId } from '../../mongo/object-id.ts';
import type { JobsDb } from './due-jobs.ts';

/** The jobs that this process has locked. */
export class JobLocks {
  readonly #jobs: ReturnType<JobsDb['collection']>;
  readonly #ids = new Set<string>();
  /** The owner of the locks, which Agenda names when it asks for jobs. */
  owner = '';

  constructor(jobs: ReturnType<JobsDb['collection']>) {
    this.#jobs = jobs;
  }

  get ids(): Iterable<string> {
    return this.#ids;
  }

  add(id: string): void {
    this.#ids.add(id);
  }

  delete(id: string): void {
    this.#ids.delete(id);
  }

  /** Never rejects: a lock that stays lapses later. */
  async unlock(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#write(ids).catch(() => {});
    for (const id of ids) this.#ids.delete(id);
  }

  /** If its lock has lapsed, another process may have the job by now. */
  async #write(ids: readonly string[]): Promise<void> {
    const lockedHere = { _id: { $in: ids.map((id) => objectId(id)) }, lastModifiedBy: this.owner };
    await this.#jobs.updateMany(lockedHere, { $unset: { lockedAt: true } });
  }
}
