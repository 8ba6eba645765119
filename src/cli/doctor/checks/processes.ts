import type { ProcessDocument } from '../../../operator/model.ts';
import { type DatabaseContext, failed, ok, problemsOr, type Result, skipped, warning } from '../check.ts';

/** How many records are read. */
const limit = 1_000;
/** Below the 5 s after which the connection is given up as silent (`socketTimeoutMS`). Milliseconds. */
const maxTimeMS = 4_000;
/** Seconds. */
const noticeableSkew = 1;
/** Of so many processes a message says which they are. */
const namedProcesses = 5;

type Context = Pick<DatabaseContext, 'db' | 'prefix'>;
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

const nameOf = ({ hostname, pid }: Live): string => `${hostname}, pid ${pid}`;

/** The records of processes that were seen lately, by the database's clock. */
async function readLive({ db, prefix }: Context): Promise<readonly Live[]> {
  return db
    .collection<Live>(`${prefix}processes`)
    .find({ $expr: { $gt: ['$liveUntil', '$$NOW'] } }, { projection, limit, maxTimeMS })
    .sort({ liveUntil: -1 })
    .toArray();
}

/** Whether a document of this collection is due. */
async function isDue({ db, prefix }: Context, collection: string, filter: object, field: string): Promise<boolean> {
  const due = { ...filter, [field]: { $gte: new Date(0) }, $expr: { $lte: [`$${field}`, '$$NOW'] } };
  return (await db.collection(prefix + collection).findOne(due, { projection: { _id: 1 }, maxTimeMS })) !== null;
}

/** A process that makes attempts, where something is due. */
async function checkWorkers(context: Context): Promise<readonly Result[]> {
  const live = await readLive(context);
  const workers = live.filter(({ role }) => role !== 'api').length;
  if (workers > 0) return [ok(`${workers} live, of ${live.length} processes`)];
  const due = await Promise.all([
    isDue(context, 'deliveries', { state: 'pending' }, 'claimableAt'),
    isDue(context, 'events', { fanOut: 'pending' }, 'fanOutAt'),
  ]);
  if (!due.includes(true)) return [ok('no live process makes delivery attempts, and none is due')];
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

/** What live processes say of themselves. */
export const processChecks = {
  workers: checkWorkers,
  'process versions': checkVersions,
  'process clocks': checkClocks,
  breakers: checkBreakers,
  'hanging upstreams': checkHanging,
};
