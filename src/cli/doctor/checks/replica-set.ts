import { type DatabaseContext, failed, ok, type Result, warning } from '../check.ts';

interface Member {
  readonly name: string;
  readonly stateStr: string;
  readonly optimeDate?: Date;
}

interface SetStatus {
  readonly set: string;
  readonly members: readonly Member[];
  /** How many members must have a write, so that a majority has it. */
  readonly writeMajorityCount?: number;
}

/** How far a secondary may be behind. Milliseconds. */
const longestLag = 10_000;

const hasData = ({ stateStr }: Member) => stateStr === 'PRIMARY' || stateStr === 'SECONDARY';
const isArbiter = ({ stateStr }: Member) => stateStr === 'ARBITER';
const names = (members: readonly Member[]) => members.map(({ name, stateStr }) => `${name} (${stateStr})`).join(', ');

/** What is wrong with the members of a replica set. Pure. */
export function judgeMembers({ members, writeMajorityCount = 1 }: SetStatus): Result[] {
  const down = members.filter((member) => !hasData(member) && !isArbiter(member));
  const live = members.filter(hasData);
  const newest = Math.max(...live.map(({ optimeDate }) => Number(optimeDate ?? 0)));
  const late = live.filter(({ optimeDate }) => newest - Number(optimeDate ?? newest) > longestLag);
  return [
    ...(live.length < writeMajorityCount
      ? [
          failed(
            `writes wait: ${writeMajorityCount} members must have each, and ${live.length} can`,
            'bring members with data back',
          ),
        ]
      : []),
    ...(down.length > 0
      ? [warning(`not available: ${names(down)}`, 'bring them back, or take them out of the set')]
      : []),
    ...(late.length > 0
      ? [warning(`more than 10 s behind: ${names(late)}`, 'look at their disks, and at the network to them')]
      : []),
    ...(members.length === 1
      ? [warning('the set has one member: what is acknowledged is lost with its disk', 'add two members')]
      : []),
    ...(members.some(isArbiter)
      ? [
          warning(
            'the set has an arbiter: once a member with data is down, no write has a majority',
            'replace the arbiter by a member with data',
          ),
        ]
      : []),
  ];
}

/** The replica set, and whether it can acknowledge what the gateway writes: with a majority and the journal. */
export async function checkReplicaSet({ admin }: Pick<DatabaseContext, 'admin'>): Promise<readonly Result[]> {
  const hello = await admin.command({ hello: 1 });
  if (hello.msg === 'isdbgrid') return [ok('a sharded cluster, through mongos; look at the set of each shard too')];
  if (hello.setName === undefined) {
    const message = 'a standalone mongod: no transactions, and an acknowledged event can be lost with its disk';
    return [failed(message, 'start mongod with --replSet and run rs.initiate() once')];
  }
  const status = (await admin.command({ replSetGetStatus: 1 })) as unknown as SetStatus;
  const problems = judgeMembers(status);
  if (problems.length > 0) return problems;
  return [ok(`${status.set}: ${names(status.members)}; the gateway writes with a majority and the journal`)];
}
