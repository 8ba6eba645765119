import { countDue, countLimit, type DueCount } from '../../operator/backlog.ts';
import type { ProcessDocument } from '../../operator/model.ts';
import { type DatabaseContext, failed, ok, problemsOr, type Result, skipped, warning } from './check.ts';

/** How many records of processes are looked at. */
const processLimit = 1_000;
/** Below the 5 s after which the connection is given up as silent (`socketTimeoutMS`). Milliseconds. */
const maxTimeMS = 4_000;
/** From when on it counts as late, and as stuck: the alerts wait as long. Seconds. */
const [late, stuck] = [60, 300] as const;

type Context = Pick<DatabaseContext, 'db' | 'prefix'>;

/** Work that is found by the time from which it may be claimed. */
interface DueWork {
  readonly what: string;
  readonly collection: string;
  readonly filter: Readonly<Record<string, unknown>>;
  readonly field: string;
}

const fanOuts: DueWork = {
  what: 'events wait for their deliveries',
  collection: 'events',
  filter: { fanOut: 'pending' },
  field: 'fanOutAt',
};

const deliveries: DueWork = {
  what: 'deliveries are due and not claimed',
  collection: 'deliveries',
  filter: { state: 'pending' },
  field: 'claimableAt',
};

const backgroundResponses: DueWork = {
  what: 'responses wait to be polled',
  collection: 'stored',
  filter: {},
  field: 'background.dueAt',
};

/** How much of this is due, counted up to `limit`; `undefined` where none is. */
async function readDue({ db, prefix }: Context, { collection, field, filter }: DueWork, limit: number) {
  const stages = countDue(field, filter, limit);
  const [found] = await db
    .collection(prefix + collection)
    .aggregate<DueCount>(stages, { maxTimeMS })
    .toArray();
  return found;
}

const startWorker =
  'start a process that calls gateway.start() (ROLE all or worker); if one runs, look for `the sweep failed` in its log';

/** Makes a check of how much is due of this, and since when. */
function checkOfDue(work: DueWork) {
  return async function check(context: Context): Promise<readonly Result[]> {
    const found = await readDue(context, work, countLimit);
    if (!found || found.oldest < late) return [ok(found ? `${found.count} due, none for a minute` : 'none is due')];
    const count = found.count === countLimit ? `${countLimit} or more` : `${found.count}`;
    const message = `${count} ${work.what}, the oldest for ${Math.round(found.oldest)} s`;
    return [found.oldest < stuck ? warning(message, startWorker) : failed(message, startWorker)];
  };
}

/** Agenda's jobs that are due for a minute and whose delivery has ended, or is gone. */
async function checkJobs({ db, prefix }: DatabaseContext): Promise<readonly Result[]> {
  const isOld = { $lt: [{ $max: ['$nextRunAt', { $toDate: '$_id' }] }, { $subtract: ['$$NOW', late * 1_000] }] };
  const name = `${prefix}jobs`;
  const [found] = await db
    .collection(name)
    .aggregate<{ count: number }>(
      [
        { $match: { $expr: isOld } },
        { $limit: countLimit },
        { $lookup: { from: `${prefix}deliveries`, localField: 'data.deliveryId', foreignField: '_id', as: 'found' } },
        { $match: { 'found.state': { $ne: 'pending' } } },
        { $count: 'count' },
      ],
      { maxTimeMS },
    )
    .toArray();
  if (!found) return [ok(`${name}: each job that is overdue is of a pending delivery`)];
  const message = `${name}: ${found.count} jobs belong to nothing that is pending; they change nothing`;
  const removeAll = `db.getCollection('${name}').deleteMany({})`;
  return [warning(message, `running workers remove them; to remove all jobs, run ${removeAll}`)];
}

export const backgroundWork = {
  'fan-outs': checkOfDue(fanOuts),
  deliveries: checkOfDue(deliveries),
  'background responses': checkOfDue(backgroundResponses),
  jobs: checkJobs,
};

/** Seconds. */
const noticeableSkew = 1;
/** Of so many processes a message says which they are. */
const namedProcesses = 5;

type UpstreamState = Pick<ProcessDocument['upstreams'][number], 'name' | 'breaker' | 'isHanging'>;
type Live = Pick<ProcessDocument, 'hostname' | 'pid' | 'version' | 'role' | 'clockSkew'> & {
  readonly upstreams: readonly UpstreamState[];
};

/** What is read of a record: not what it counts. */
const projection = {
  hostname: 1,
  pid: 1,
  version: 1,
  role: 1,
  clockSkew: 1,
  'upstreams.name': 1,
  'upstreams.breaker': 1,
  'upstreams.isHanging': 1,
};

/** The records of processes that were seen lately, by the database's clock. */
async function readLive({ db, prefix }: Context): Promise<readonly Live[]> {
  return db
    .collection<Live>(`${prefix}processes`)
    .find({ $expr: { $gt: ['$liveUntil', '$$NOW'] } }, { projection, limit: processLimit, maxTimeMS })
    .sort({ liveUntil: -1 })
    .toArray();
}

const nameOf = ({ hostname, pid }: Live): string => `${hostname}, pid ${pid}`;

/** A process that makes attempts, where something is due. */
async function checkWorkers(context: Context): Promise<readonly Result[]> {
  const live = await readLive(context);
  const workers = live.filter(({ role }) => role !== 'api').length;
  if (workers > 0) return [ok(`${workers} live, of ${live.length} processes`)];
  const due = await Promise.all([deliveries, fanOuts].map((work) => readDue(context, work, 1)));
  if (!due.some(Boolean)) return [ok('no live process makes delivery attempts, and none is due')];
  const message = `no live process makes delivery attempts, and some are due (${live.length} live, all with the role api)`;
  const remedy =
    'start a process with ROLE worker or all, or call gateway.start(); look in the log of the one that ended';
  return [failed(live.length > 0 ? message : 'no live process makes delivery attempts, and some are due', remedy)];
}

async function checkVersions(context: Context): Promise<readonly Result[]> {
  const live = await readLive(context);
  if (live.length === 0) return [skipped('no process is live')];
  const versions = new Map<string, Live>();
  for (const liveProcess of live)
    if (!versions.has(liveProcess.version)) versions.set(liveProcess.version, liveProcess);
  const shown = [...versions].map(([version, liveProcess]) => `${version} (${nameOf(liveProcess)})`);
  if (shown.length === 1) return [ok(`${live.length} live, all ${live[0]?.version}`)];
  return [
    warning(`live processes have different versions: ${shown.join('; ')}`, 'finish the upgrade, or roll it back'),
  ];
}

async function checkClocks(context: Context): Promise<readonly Result[]> {
  const live = await readLive(context);
  const problems = live.flatMap((liveProcess) => {
    const skew = liveProcess.clockSkew ?? 0;
    if (Math.abs(skew) <= noticeableSkew) return [];
    const message = `${nameOf(liveProcess)}: ${Math.abs(skew).toFixed(1)} s ${skew > 0 ? 'ahead of' : 'behind'} the database`;
    return [warning(message, 'synchronise its machine by NTP (chronyc tracking, timedatectl)')];
  });
  return problemsOr(problems, live.length > 0 ? 'all within a second of the database' : 'no process is live');
}

/** Makes a check of what live processes say of their upstreams: a problem for each upstream that is so in one of them. */
function checkOfUpstreams(isSo: (upstream: UpstreamState) => boolean, problem: string, remedy: string) {
  return async function check(context: Context): Promise<readonly Result[]> {
    const live = await readLive(context);
    const names = live.flatMap(({ upstreams }) => upstreams.filter(isSo).map(({ name }) => name));
    const problems = [...new Set(names)].sort().map((name) => {
      const those = live.filter(({ upstreams }) => upstreams.some((one) => one.name === name && isSo(one)));
      const shown = those.slice(0, namedProcesses).map(nameOf).join('; ');
      return failed(`${name} ${problem} in ${those.length} of ${live.length} live processes (${shown})`, remedy);
    });
    return problemsOr(problems, live.length > 0 ? `none, in ${live.length} live processes` : 'no process is live');
  };
}

const checkBreakers = checkOfUpstreams(
  ({ breaker }) => breaker !== 'closed',
  'has an open breaker, which keeps calls away from it,',
  'mend what the check `upstreams` says of it; if it says nothing, look at the network, resolver and certificates of these processes. The breaker closes by itself with the first call that connects',
);

const checkHanging = checkOfUpstreams(
  ({ isHanging = false }) => isHanging,
  'accepts calls and answers none',
  "restart it if it is yours, otherwise look at the provider's status page; the next response ends it",
);

export const processChecks = {
  workers: checkWorkers,
  'process versions': checkVersions,
  'process clocks': checkClocks,
  breakers: checkBreakers,
  'hanging upstreams': checkHanging,
};
