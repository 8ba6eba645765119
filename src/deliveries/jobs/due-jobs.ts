import { type JobParameters, type NotificationChannel, toJobId } from 'agenda';
import type { Connection } from 'mongoose';
import { inOneBatch } from '../../mongo/collection.ts';

/** For no job in particular. */
const noJob = toJobId('');
/** Jobs locked at once. */
const most = 100;

/** The database of the jobs. */
export type JobsDb = ReturnType<ReturnType<Connection['getClient']>['db']>;

type StoredJob = Omit<JobParameters, '_id'> & { readonly _id: { toHexString(): string } };

/** A stored job as Agenda has it. */
function toParameters({ _id, ...job }: StoredJob): JobParameters {
  const filled = Object.entries(job).filter(([, value]) => value !== null);
  return { ...(Object.fromEntries(filled) as unknown as JobParameters), _id: toJobId(_id.toHexString()) };
}

/** How Agenda asks for a job. */
export interface JobRequest {
  readonly owner: string;
  /** When Agenda asks the next time by itself. */
  readonly nextScanAt: Date;
  /** A lock from before has lapsed. */
  readonly lockDeadline: Date;
}

/** The jobs of one name that are to be run. */
export interface DueJobs {
  /**
   * Locks a job that is due. As many as there are get locked in three round trips, and are handed out one by one. There is none once
   * after these, so that Agenda runs them before it looks for more: jobs whose locks lapse in its queue count as locked for ever.
   */
  next(wanted: JobRequest): Promise<JobParameters | undefined>;
  /** Those that are locked and that nobody has asked for. */
  readonly ready: readonly JobParameters[];
}

/**
 * Locks only what is due, and has Agenda told of the next job when that is due. Agenda's own backend also locks what is due within the
 * polling interval, for which Agenda sets timers: its tools then show such a job as running, it goes through all of them whenever it starts
 * one (22 ms of CPU a job where 200 are due within 2 s, instead of 5), and leaves one whose timer fires a millisecond early until its next look.
 * @param channel passes on what it is told when that is to be run, and never rejects
 * @param delay how long after their time they are run. Milliseconds.
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

  /** Has Agenda ask again when the job is to be run. Not awaited: where it is late, Agenda asks at once for what is being locked here. */
  function tell({ _id, nextRunAt, priority }: Pick<JobParameters, '_id' | 'nextRunAt' | 'priority'>): void {
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
    const found = (await collection
      .find(isFree, { projection: { nextRunAt: 1, priority: 1 }, ...inOneBatch })
      .sort({ nextRunAt: 1, priority: -1 })
      .limit(most)
      .toArray()) as unknown as StoredJob[];
    const isLater = ({ nextRunAt }: StoredJob) => nextRunAt !== null && nextRunAt > before(lockedAt);
    const later = found.find(isLater);
    if (later) tell(toParameters(later));
    const due = found.filter((job) => !isLater(job));
    if (due.length === 0) return;
    const ids = { _id: { $in: due.map(({ _id }) => _id) } } as object;
    const lockedByUs = { lockedAt, lastModifiedBy: owner };
    await collection.updateMany({ ...ids, ...isFree }, { $set: lockedByUs });
    const ours = await collection.find({ ...ids, ...lockedByUs }, inOneBatch).toArray();
    ready.push(...(ours as unknown as StoredJob[]).map(toParameters));
  }

  return {
    async next(wanted) {
      // those that Agenda did not ask for in time are anybody's again
      while (ready[0]?.lockedAt && ready[0].lockedAt <= wanted.lockDeadline) ready.shift();
      if (isHandedOut) {
        isHandedOut = false;
        tell({ nextRunAt: new Date(0), priority: 0 });
        return undefined;
      }
      // what is being locked may have been looked for before this was due
      if (ready.length === 0) await locking;
      if (ready.length === 0) {
        locking ??= lock(wanted).finally(() => {
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
