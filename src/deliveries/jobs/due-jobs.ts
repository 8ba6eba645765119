import { type JobParameters, type NotificationChannel, toJobId } from 'agenda';
import type { Connection } from 'mongoose';
import { inOneBatch } from '../../mongo/collection.ts';

/** A notification about no job in particular. */
const noJob = toJobId('');
/** Jobs locked at once. */
const maxLocked = 100;

/** The database of the jobs. */
export type JobsDb = ReturnType<ReturnType<Connection['getClient']>['db']>;

type StoredJob = Omit<JobParameters, '_id'> & { readonly _id: { toHexString(): string } };

/** A stored job in Agenda's form. */
function toParameters({ _id, ...job }: StoredJob): JobParameters {
  const filled = Object.entries(job).filter(([, value]) => value !== null);
  return { ...(Object.fromEntries(filled) as unknown as JobParameters), _id: toJobId(_id.toHexString()) };
}

/** How Agenda asks for a job. */
export interface JobRequest {
  readonly owner: string;
  /** When Agenda asks again without being woken. */
  readonly nextScanAt: Date;
  /** An older lock has lapsed. */
  readonly lockDeadline: Date;
}

/** The due jobs of one name. */
export interface DueJobs {
  /**
   * Locks a due job. It locks as many as there are in three round trips and hands them out one by one. After the last one it
   * returns `undefined` once, so that Agenda runs them before it looks for more: jobs whose locks lapse in its queue count
   * as locked permanently.
   */
  next(request: JobRequest): Promise<JobParameters | undefined>;
  /** Locked jobs that Agenda has not asked for yet. */
  readonly ready: readonly JobParameters[];
}

/**
 * Locks only due jobs, and notifies Agenda of the next job when that is due. Agenda's own backend also locks the jobs that are due
 * within the polling interval, and Agenda sets timers for them. Its tools then show such a job as running, it goes through all of
 * them whenever it starts one (22 ms of CPU a job with 200 due within 2 s, instead of 5), and a job whose timer fires a
 * millisecond early waits until Agenda looks again.
 * @param channel publishes a notification when its job should run, and never rejects
 * @param delay how long after their time the jobs run. Milliseconds.
 */
export function createDueJobs(
  collection: ReturnType<JobsDb['collection']>,
  jobName: string,
  channel: Pick<NotificationChannel, 'publish'>,
  delay = 0,
): DueJobs {
  const ready: JobParameters[] = [];
  let locking: Promise<void> | null = null;
  let isHandedOut = false;

  /** Makes Agenda ask again when the job should run. Not awaited: for a late job, Agenda at once asks for what is being locked here. */
  function notify({ _id, nextRunAt, priority }: Pick<JobParameters, '_id' | 'nextRunAt' | 'priority'>): void {
    void channel.publish({ jobId: _id ?? noJob, jobName, nextRunAt, priority, timestamp: new Date() });
  }

  async function lock({ owner, nextScanAt, lockDeadline }: JobRequest): Promise<void> {
    const lockedAt = new Date();
    const before = (time: Date) => new Date(time.getTime() - delay);
    const isFree = {
      name: jobName,
      disabled: { $ne: true },
      $or: [{ lockedAt: null, nextRunAt: { $lte: before(nextScanAt) } }, { lockedAt: { $lte: lockDeadline } }],
    };
    const jobs = await collection
      .find<StoredJob>(isFree, { projection: { nextRunAt: 1, priority: 1 }, ...inOneBatch })
      .sort({ nextRunAt: 1, priority: -1 })
      .limit(maxLocked)
      .toArray();
    const isLater = ({ nextRunAt }: StoredJob) => nextRunAt !== null && nextRunAt > before(lockedAt);
    const later = jobs.find(isLater);
    if (later) notify(toParameters(later));
    const due = jobs.filter((job) => !isLater(job));
    if (due.length === 0) return;
    const ids = { _id: { $in: due.map(({ _id }) => _id) } } as object;
    const lockedByUs = { lockedAt, lastModifiedBy: owner };
    await collection.updateMany({ ...ids, ...isFree }, { $set: lockedByUs });
    const locked = await collection.find<StoredJob>({ ...ids, ...lockedByUs }, inOneBatch).toArray();
    ready.push(...locked.map(toParameters));
  }

  return {
    async next(request) {
      // any process may lock the jobs that Agenda did not ask for in time
      while (ready[0]?.lockedAt && ready[0].lockedAt <= request.lockDeadline) ready.shift();
      if (isHandedOut) {
        isHandedOut = false;
        notify({ nextRunAt: new Date(0), priority: 0 });
        return undefined;
      }
      // the search that is under way may have started before this job was due
      if (ready.length === 0) await locking;
      if (ready.length === 0) {
        locking ??= lock(request).finally(() => {
          locking = null;
        });
        await locking;
      }
      const job = ready.shift();
      isHandedOut = job !== undefined && ready.length === 0;
      return job;
    },
    ready,
  };
}
