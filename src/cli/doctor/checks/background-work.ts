import { type DatabaseContext, failed, ok, type Result, warning } from '../check.ts';

/** How many documents of a kind are looked at. */
const limit = 10_000;
/** Below the 5 s after which the connection is given up as silent (`socketTimeoutMS`). Milliseconds. */
const maxTimeMS = 4_000;
/** From when on it counts as late, and as stuck: the alerts wait as long. Seconds. */
const [late, stuck] = [60, 300] as const;

/** Work that is found by the time from which it may be claimed. */
interface DueWork {
  readonly what: string;
  readonly collection: string;
  readonly filter: Readonly<Record<string, unknown>>;
  readonly field: string;
  readonly remedy: string;
}

const startWorker =
  'start a process that calls gateway.start() (ROLE all or worker); if one runs, look for `the sweep failed` in its log';

const dueWork: Readonly<Record<string, DueWork>> = {
  'fan-outs': {
    what: 'events wait for their deliveries',
    collection: 'events',
    filter: { fanOut: 'pending' },
    field: 'fanOutAt',
    remedy: startWorker,
  },
  deliveries: {
    what: 'deliveries are due and not claimed',
    collection: 'deliveries',
    filter: { state: 'pending' },
    field: 'claimableAt',
    remedy: startWorker,
  },
  'background responses': {
    what: 'responses wait to be polled',
    collection: 'stored',
    filter: {},
    field: 'background.dueAt',
    remedy: startWorker,
  },
};

async function checkDue(context: DatabaseContext, work: DueWork): Promise<readonly Result[]> {
  const { what, collection, filter, field, remedy } = work;
  const [found] = await context.db
    .collection(context.prefix + collection)
    .aggregate<{ count: number; oldest: number }>(
      [
        { $match: { ...filter, [field]: { $gte: new Date(0) }, $expr: { $lte: [`$${field}`, '$$NOW'] } } },
        { $sort: { [field]: 1 } },
        { $limit: limit },
        { $group: { _id: null, count: { $sum: 1 }, since: { $min: `$${field}` } } },
        { $project: { count: 1, oldest: { $divide: [{ $subtract: ['$$NOW', '$since'] }, 1_000] } } },
      ],
      { maxTimeMS },
    )
    .toArray();
  if (!found || found.oldest < late) return [ok(found ? `${found.count} due, none for a minute` : 'none is due')];
  const count = found.count === limit ? `${limit} or more` : `${found.count}`;
  const message = `${count} ${what}, the oldest for ${Math.round(found.oldest)} s`;
  return [found.oldest < stuck ? warning(message, remedy) : failed(message, remedy)];
}

/** Jobs of Agenda, and what each must belong to. */
const jobs = [
  { collection: 'jobs', field: 'data.deliveryId', of: 'deliveries', live: { 'found.state': 'pending' } },
  {
    collection: 'response_jobs',
    field: 'data.responseId',
    of: 'stored',
    live: { 'found.background': { $exists: true } },
  },
] as const;

/** Jobs that are at least a minute old and whose delivery or response has ended, or is gone. */
async function checkJobs({ db, prefix }: DatabaseContext): Promise<readonly Result[]> {
  const results = jobs.map(async ({ collection, field, of, live }) => {
    const isOld = { $lt: [{ $toDate: '$_id' }, { $subtract: ['$$NOW', late * 1_000] }] };
    const name = prefix + collection;
    const [found] = await db
      .collection(name)
      .aggregate<{ count: number }>(
        [
          { $match: { $expr: isOld } },
          { $limit: limit },
          { $lookup: { from: prefix + of, localField: field, foreignField: '_id', as: 'found' } },
          { $match: { $nor: [live] } },
          { $count: 'count' },
        ],
        { maxTimeMS },
      )
      .toArray();
    if (!found) return ok(`${name}: each job has what it belongs to`);
    const message = `${name}: ${found.count} jobs belong to nothing that is pending; they change nothing`;
    const removeAll = `db.getCollection('${name}').deleteMany({})`;
    return warning(message, `running workers remove them when they are due; to remove all jobs, run ${removeAll}`);
  });
  return Promise.all(results);
}

/** What is due, and the jobs that wake workers. */
export const backgroundWork = {
  ...Object.fromEntries(
    Object.entries(dueWork).map(([name, work]) => [name, (context: DatabaseContext) => checkDue(context, work)]),
  ),
  jobs: checkJobs,
};
