import { setTimeout as sleep } from 'node:timers/promises';
import type { MongoNode } from '../../src/cli/mongo/embedded-mongo.ts';
import type { MemberClocks } from './cluster/member-clocks.ts';
import { type Fault, repeat, type Scene } from './faults.ts';

/** How far the clock of a member is set. What was put off by it waits as long when it is right again. Seconds. */
const memberStep = 20;
/** How far the clock of a worker is set. Milliseconds. */
const workerStep = 5 * 60_000;

async function loseNames({ cluster, workers }: Scene): Promise<void> {
  workers.tell({ namesAreGone: true });
  // what is open needs no name
  const heal = cluster.network.inject({ action: 'cut', openOnly: true, on: ({ from }) => from === undefined });
  heal();
  await sleep(6_000);
  workers.tell({ namesAreGone: false });
  await sleep(1_000);
}

/** Which member's clock is set, and how: the primary's and a secondary's, ahead and behind. */
const memberSteps = [
  { isPrimary: true, seconds: -memberStep },
  { isPrimary: false, seconds: memberStep },
  { isPrimary: true, seconds: memberStep },
  { isPrimary: false, seconds: -memberStep },
] as const;

/** Sets the clock of a member; resolves when the member tells that time. */
async function setClock({ cluster, memberClocks }: Scene, node: MongoNode, seconds: number): Promise<void> {
  await memberClocks.step(node.port, seconds);
  await cluster.untilClockIs(node, seconds, memberStep / 4);
}

async function stepMember(scene: Scene, i: number): Promise<void> {
  const { isPrimary, seconds } = memberSteps[i % memberSteps.length] ?? memberSteps[0];
  const { cluster } = scene;
  const { node: primary } = await cluster.primary();
  const node = isPrimary ? primary : (cluster.nodes.find((one) => one !== primary) as MongoNode);
  await setClock(scene, node, seconds);
  await sleep(2_000);
  await setClock(scene, node, 0);
  await sleep(1_000);
}

async function stepWorkers({ workers, disturbances }: Scene, i: number): Promise<void> {
  const ahead = i % 2 === 0 ? 1 : -1;
  const [first, second] = workers.running();
  await disturbances.skewed([workerStep, -workerStep], async () => {
    if (first) workers.tell({ clockSkew: ahead * workerStep }, first);
    if (second) workers.tell({ clockSkew: -ahead * workerStep }, second);
    await sleep(3_000);
    workers.tell({ clockSkew: 0 });
    await sleep(1_000);
  });
}

const memberRow: Fault = {
  name: `clock of a member ${memberStep} s ahead or behind for 2 s`,
  short: 1,
  full: 20,
  inject: (scene, times) =>
    repeat(times, (i) => scene.disturbances.during(() => stepMember(scene, i), memberStep * 1_000)),
};

const rows: readonly Fault[] = [
  {
    name: 'names of the members gone for 6 s',
    short: 1,
    full: 10,
    inject: (scene, times) => repeat(times, () => scene.disturbances.during(() => loseNames(scene))),
  },
  {
    name: 'clocks of running workers 5 minutes ahead and behind for 3 s',
    short: 2,
    full: 30,
    inject: (scene, times) => repeat(times, (i) => scene.disturbances.during(() => stepWorkers(scene, i))),
  },
];

/** What clocks and names do; without the clocks of members where the machine has no libfaketime, and that is said. */
export function clockAndDnsFaults({ canStep }: MemberClocks): readonly Fault[] {
  if (canStep) return [...rows, memberRow];
  console.log(`left out: ${memberRow.name}, for there is no libfaketime (apt-get install libfaketime)`);
  return rows;
}
