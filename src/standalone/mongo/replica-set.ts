import { setTimeout as sleep } from 'node:timers/promises';
import { type Document, MongoClient, MongoServerError } from 'mongodb';

const notYetInitialized = 94;

interface ReplicaSet {
  readonly name: string;
  /** `127.0.0.1:<port>` of each member. */
  readonly hosts: readonly string[];
}

/** Short, so that the loss of a primary is over in a few seconds. */
const timings = { electionTimeoutMillis: 2_000, heartbeatIntervalMillis: 500 };

async function currentConfig(admin: AdminCommand): Promise<Document | undefined> {
  try {
    const reply = await admin({ replSetGetConfig: 1 });
    return reply.config;
  } catch (error) {
    if (error instanceof MongoServerError && error.code === notYetInitialized) return undefined;
    throw error;
  }
}

type AdminCommand = (command: Document) => Promise<Document>;

/** Makes the members one set, whatever ports they listened on the last time. */
async function configure(admin: AdminCommand, { name, hosts }: ReplicaSet): Promise<void> {
  const members = hosts.map((host, _id) => ({ _id, host }));
  const config = await currentConfig(admin);
  if (!config) {
    await admin({ replSetInitiate: { _id: name, members, settings: timings } });
    return;
  }
  const known: string[] = config.members.map((member: { host: string }) => member.host);
  if (known.join() === hosts.join()) return;
  // forced: on its new port the node is not a member of its own set, so nobody could be asked
  await admin({ replSetReconfig: { ...config, members, version: config.version + 1 }, force: true });
}

const primary = 1;
const secondary = 2;

async function everyMemberIsUp(admin: AdminCommand): Promise<boolean> {
  const status = await admin({ replSetGetStatus: 1 }).catch(() => undefined);
  const states: number[] = (status?.members ?? []).map((member: { state: number }) => member.state);
  return states.includes(primary) && states.every((state) => state === primary || state === secondary);
}

/**
 * Brings the nodes up as one replica set and resolves when it has a primary that takes writes.
 * @throws Error when there is none after 60 s
 */
export async function bringUpReplicaSet(set: ReplicaSet): Promise<void> {
  const client = new MongoClient(`mongodb://${set.hosts[0]}/`, { directConnection: true });
  try {
    const admin: AdminCommand = (command) => client.db('admin').command(command);
    await configure(admin, set);
    for (const deadline = Date.now() + 60_000; !(await everyMemberIsUp(admin)); await sleep(25)) {
      if (Date.now() > deadline) throw new Error('the embedded MongoDB has no primary after 60 s');
    }
  } finally {
    await client.close();
  }
  const whole = new MongoClient(replicaSetUri(set));
  try {
    await whole.db('admin').command({ ping: 1 }, { readPreference: 'primary' });
  } finally {
    await whole.close();
  }
}

/** How a client reaches the set, and its database. */
export function replicaSetUri({ name, hosts }: ReplicaSet): string {
  return `mongodb://${hosts.join(',')}/gateway?replicaSet=${name}`;
}
